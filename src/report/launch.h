/* launch: a layout as the arguments, environment and files of the program that trains with it.
 *
 * Data before code: a launcher is a table of rows (what of a layout, under which key, with which value, when, with which
 * remark, read where) and a table of what it has (methods, ZeRO stages, schedules, ...). What a launcher lacks is refused
 * with the nearest thing that it has; nothing is left out in silence.
 */
#ifndef SEQPLAN_REPORT_LAUNCH_H
#define SEQPLAN_REPORT_LAUNCH_H

#include "report/report.h"

struct launch_engine;

/* What the functions of a row look at. */
struct launch_case {
    struct sp_arena *arena;
    const struct question *question;
    const struct launch_engine *engine;
};
typedef const char *(*launch_text)(const struct launch_case *it); /* NULL: nothing to say */
typedef bool (*launch_test)(const struct launch_case *it);

enum launch_place {
    LAUNCH_ARGUMENT,    /* of the training program */
    LAUNCH_ENVIRONMENT, /* a variable */
    LAUNCH_RUNNER,      /* of what starts the processes: torchrun, accelerate launch */
    LAUNCH_SETTING,     /* of the configuration file: a dotted path */
    LAUNCH_CODE         /* a line of a program */
};

/* One line of what comes out, or a remark alone where the key is NULL. */
struct launch_row {
    const char *key;
    launch_text value;  /* or NULL: `fixed`; where both are NULL the key stands alone. Blanks part several words */
    const char *fixed;  /* the same value always */
    launch_test when;   /* NULL: always. A value function that returns NULL leaves the row out too */
    const char *remark; /* stands above the line: a trap, or what the launcher does by itself */
    launch_text says;   /* a remark that depends on the layout, or NULL */
    const char *source; /* repository@commit file, or a document */
    enum launch_place place;
};

/* A rule of a launcher that no list of values says. */
struct launch_limit {
    launch_text refusal; /* the reason and the nearest that goes, or NULL where the rule holds */
    const char *source;
};

enum launch_axis { LAUNCH_TP = 1U, LAUNCH_PP = 2U, LAUNCH_EP = 4U, LAUNCH_LORA = 8U };
enum launch_offload { LAUNCH_ACTIVATIONS = 1U, LAUNCH_OPTIMIZER = 2U, LAUNCH_PARAMETERS = 4U };
#define LAUNCH_BIT(value) (1U << (unsigned)(value))

/* What a launcher has when it runs a framework. Bits are of the enumerations of spec.h. */
struct launch_engine {
    enum framework_id framework;
    const char *title; /* of it inside the launcher, or NULL where it has but one */
    unsigned methods, zeros, schedules, precisions, recomputes;
    unsigned offloads, axes;     /* enum launch_offload, enum launch_axis */
    const char *const *orders;   /* NULL-terminated, fastest first */
    const char *const *settings; /* what --set overrides, and --mask, that rows say: "run.loss", "model."; or NULL */
    bool chooses_kernels;        /* rows say whether kernels are compiled */
    const struct launch_limit *limits; /* end with a row without a refusal */
    const struct launch_row *rows;     /* end with a row without anything */
};

enum launch_syntax {
    LAUNCH_FLAGS,     /* --key value */
    LAUNCH_OVERRIDES, /* key=value */
    LAUNCH_YAML,      /* settings as a YAML file; arguments as flags */
    LAUNCH_JSON       /* settings as a JSON file; arguments as flags */
};

enum { LAUNCH_ENGINES = 2 };
struct launcher {
    const char *name;  /* of --for */
    const char *title; /* for reading */
    enum launch_syntax syntax;
    const char *command; /* starts it: "torchrun%R train.py%A": %R the runner's words, %A the arguments */
    const char *file;    /* name of the configuration file, or NULL */
    const char *code;    /* name of the file of LAUNCH_CODE, or NULL */
    int n_engines;
    const struct launch_engine *engines[LAUNCH_ENGINES];
};
extern const struct launcher launch_megatron_lm, launch_megatron_bridge, launch_deepspeed, launch_torchtitan,
    launch_openrlhf, launch_accelerate, launch_axolotl, launch_verl, launch_automodel, launch_maxtext;

/* ---- what is found for a layout (launch.c) ------------------------------------------------------------------------ */

struct launch_item {
    const char *key;   /* NULL: the remark alone */
    const char *value; /* NULL: the key alone */
    const char *remark;
    const char *source;
    enum launch_place place;
};
struct launch {
    const struct launcher *launcher;
    const struct launch_engine *engine;
    const struct question *question;
    const struct launch_item *items;
    int n_items;
};

extern const char *const launcher_names[]; /* NULL-terminated, as launcher_of() counts */
const struct launcher *launcher_of(int index);
/* The launcher of a framework, NULL where none runs it (ideal). */
const struct launcher *launcher_home(enum framework_id framework);
/* The framework of a launcher that has a method; its first one where none has. */
enum framework_id launcher_framework(const struct launcher *launcher, enum method_id method);

/* Borrows the question. SP_ERROR_USAGE, all reasons in one line, where the launcher cannot express the layout. */
bool launch_build(struct sp_arena *arena, const struct question *question, const struct launcher *launcher,
                  struct launch *launch, struct sp_error *err) SP_MUST_CHECK;
/* Adds a broken rule for everything that the engine does not have (launch_limits.c). True when it has it all. */
bool launch_check(const struct launch_case *it, const struct launcher *launcher, const struct launch_engine *engine,
                  struct sp_error *err) SP_MUST_CHECK;

/* Prints it in the style's format (launch_print.c). */
void report_launch(const struct report_style *style, struct sp_arena *arena, const struct launch *launch);
/* The object of "seqplan.launch/1" (launch_tree.c). */
const struct sp_json *launch_tree(struct sp_arena *arena, const struct launch *launch);
/* The words of one line: "--key", "value", or "key=value". Returns how many. */
enum { LAUNCH_WORDS = 16 };
int launch_words(struct sp_arena *arena, const struct launch *launch, const struct launch_item *item,
                 const char *words[LAUNCH_WORDS]);
/* What the configuration file, or the program's lines, hold: with the remarks where the language has any (JSON has none).
 * NULL: there is none (launch_files.c). */
const char *launch_file_text(struct sp_arena *arena, const struct launch *launch);
const char *launch_code_text(struct sp_arena *arena, const struct launch *launch);
/* A text in lines of at most `width` columns, each behind `prefix`. */
const char *launch_wrap(struct sp_arena *arena, const char *prefix, const char *text);

/* ---- values and conditions that launchers share (launch_values.c) ------------------------------------------------- */

const char *launch_tp(const struct launch_case *it);
const char *launch_sp(const struct launch_case *it);
const char *launch_pp(const struct launch_case *it);
const char *launch_vpp(const struct launch_case *it);
const char *launch_dp(const struct launch_case *it);
const char *launch_ep(const struct launch_case *it);
const char *launch_etp(const struct launch_case *it);
const char *launch_zero(const struct launch_case *it);
const char *launch_gpus(const struct launch_case *it);
const char *launch_nodes(const struct launch_case *it);
const char *launch_node_gpus(const struct launch_case *it);
const char *launch_seq(const struct launch_case *it);
const char *launch_micro_batch(const struct launch_case *it);
const char *launch_local_batch(const struct launch_case *it); /* sequences of a step for one data-parallel rank */
const char *launch_global_batch(const struct launch_case *it);
const char *launch_accumulation(const struct launch_case *it); /* micro-batches of a step */
const char *launch_ulysses_ring(const struct launch_case *it); /* "4 2" */
const char *launch_recompute_layers(const struct launch_case *it);
const char *launch_lora_rank(const struct launch_case *it);
const char *launch_count(const struct launch_case *it, int64_t count);

bool launch_has_tp(const struct launch_case *it);
bool launch_has_sp(const struct launch_case *it);
bool launch_has_pp(const struct launch_case *it);
bool launch_has_vpp(const struct launch_case *it);
bool launch_has_tp_sp(const struct launch_case *it);
bool launch_lacks_tp_sp(const struct launch_case *it); /* tp above 1 without it */
bool launch_is_moe(const struct launch_case *it);
bool launch_is_mla(const struct launch_case *it);
bool launch_is_usp(const struct launch_case *it);
bool launch_is_ulysses(const struct launch_case *it);
bool launch_is_zero_0(const struct launch_case *it);
bool launch_is_zero_1(const struct launch_case *it);
bool launch_is_zero_2(const struct launch_case *it);
bool launch_is_zero_3(const struct launch_case *it);
bool launch_shards_gradients(const struct launch_case *it); /* zero 2 or 3 */
bool launch_is_selective(const struct launch_case *it);
bool launch_is_full(const struct launch_case *it);
bool launch_is_block(const struct launch_case *it);
bool launch_keeps_all(const struct launch_case *it); /* no recomputation */
bool launch_is_bf16(const struct launch_case *it);
bool launch_is_fp16(const struct launch_case *it);
bool launch_is_fp8(const struct launch_case *it);
bool launch_is_bf16_or_fp8(const struct launch_case *it);
bool launch_offloads_activations(const struct launch_case *it);
bool launch_offloads_optimizer(const struct launch_case *it);
bool launch_offloads_parameters(const struct launch_case *it);
bool launch_is_lora(const struct launch_case *it);
/* Embedding and loss counted as layers, and the sum divides: as Megatron asserts it. */
bool launch_is_padded(const struct launch_case *it);
bool launch_is_uneven(const struct launch_case *it); /* stages differ, and not as above */
bool launch_is_compiled(const struct launch_case *it);
/* "flash_attention_3" where the layout is priced with it, else "flash_attention_2", and what to say where it is priced with
 * neither. */
const char *launch_flash_attention(const struct launch_case *it);
const char *launch_says_flash_attention(const struct launch_case *it);
const char *launch_says_flash_attention_2(const struct launch_case *it); /* where there is no choice */
/* "data parallel 3: what is left of the GPUs" */
const char *launch_says_dp(const struct launch_case *it);
bool launch_has_documents(const struct launch_case *it);
/* Stages run pp before dp: "tp-cp-ep-pp-dp". */
bool launch_has_pp_before_dp(const struct launch_case *it);

/* "7,8,8,7": layers of the stages. */
const char *launch_stage_layers_text(const struct launch_case *it);

#endif

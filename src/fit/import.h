/* import: what other programs print, as measurements and machines of ours (docs/import.md). Text in, plain structs out:
 * nothing here reads a file, writes a store or prints.
 *
 * A line that is of no use is skipped and named with its reason; a text of which nothing can be used, or that leaves open
 * what the figures need, is refused (SP_ERROR_INPUT), saying what to add.
 */
#ifndef SEQPLAN_IMPORT_H
#define SEQPLAN_IMPORT_H

#include "spec/spec.h"
#include "store/store.h"

/* ---- texts (import_text.c, import_kind.c) ----------------------------------------------------------------------- */

enum import_kind {
    IMPORT_NCCL_TESTS,
    IMPORT_TOPOLOGY, /* nvidia-smi topo -m */
    IMPORT_MEGATRON,
    IMPORT_TORCHTITAN,
    IMPORT_NANOTRON,
    IMPORT_DEEPSPEED,
    IMPORT_MEASUREMENTS, /* lines of our own */
    N_IMPORT_KINDS
};
extern const char *const import_kind_names[]; /* "nccl-tests", "topology", ..., NULL */

/* A text as lines, without colours and other control characters. */
struct import_text {
    const char *name; /* of the file, in errors */
    const char *const *lines;
    int64_t n_lines;
    bool is_cut; /* the last line has no end */
};
/* Copies into arena. */
struct import_text import_text_open(struct sp_arena *arena, const char *name, const char *bytes, size_t n_bytes);
/* What a text is, by what stands in it. Fails where that is nothing we know. */
bool import_recognise(const struct import_text *text, enum import_kind *kind, struct sp_error *err) SP_MUST_CHECK;

/* ---- what comes of it ------------------------------------------------------------------------------------------- */

/* What the user states because the text may not. 0 and NULL: not stated. */
struct import_given {
    int64_t ranks, nodes;
    const char *gpu;
    const char *operation;         /* of collective_names or import_operation_names, with '-' or '_' */
    struct sp_option_count warmup; /* steps of a training log that are left out */
    int64_t global_batch;          /* sequences of a step */
};

struct import_note { /* what became of a line */
    int64_t line;
    bool is_taken;
    bool is_flawed;     /* it, or part of it, is lost that should not have been: named without being asked */
    const char *reason; /* of many lines: "an empty message"; "" where all of it is taken */
    const char *text;   /* of this one */
};

struct import_result {
    struct sp_arena *arena;
    struct store_import *runs; /* their version is left to the caller */
    size_t n_runs;
    int64_t n_measurements;
    struct import_note *notes;
    int64_t n_notes, capacity;
    int64_t n_taken, n_skipped; /* lines */
    int64_t n_parts;            /* halves of lines that are taken, left out */
    struct sp_texts warnings;
};

/* For whoever reads lines (import_result.c). reason: a text that stays. */
void import_result_open(struct import_result *result, struct sp_arena *arena);
void import_take(struct import_result *result, int64_t line, const char *format, ...) SP_PRINTF(3, 4);
void import_skip(struct import_result *result, int64_t line, const char *reason, const char *format, ...)
    SP_PRINTF(4, 5);
/* The same of what is wrong with a line, not with what was asked; and of a line that is taken but for one half. */
void import_reject(struct import_result *result, int64_t line, const char *reason, const char *format, ...)
    SP_PRINTF(4, 5);
void import_take_half(struct import_result *result, int64_t line, const char *reason, const char *format, ...)
    SP_PRINTF(4, 5);

/* ---- nccl-tests (import_nccl.c, nccl_table.c, nccl_lines.c) ----------------------------------------------------- */

extern const char *const import_operation_names[]; /* "all-reduce", ..., NULL: as measurement lines name them */
/* Every table of the output is a run of group "collective". Copies into arena. */
bool import_nccl(struct sp_arena *arena, const struct import_text *text, const struct import_given *given,
                 struct import_result *result, struct sp_error *err) SP_MUST_CHECK;

/* ---- training logs (import_training.c, import_frameworks.c) ----------------------------------------------------- */

/* The steps that a log reports are one measurement of group "step", with what the log says of model, layout and memory.
 * kind: whose log. Copies into arena. */
struct import_log_source {
    const struct import_text *text;
    enum import_kind kind;
};
bool import_training(struct sp_arena *arena, const struct import_log_source *source, const struct import_given *given,
                     struct import_result *result, struct sp_error *err) SP_MUST_CHECK;

/* ---- nvidia-smi topo -m (import_topology.c) --------------------------------------------------------------------- */

/* How two devices reach each other, the nearest first. */
enum topology_path {
    TOPOLOGY_SELF,
    TOPOLOGY_NVLINK,
    TOPOLOGY_PIX,  /* one PCIe bridge */
    TOPOLOGY_PXB,  /* several */
    TOPOLOGY_PHB,  /* the host bridge */
    TOPOLOGY_NODE, /* between host bridges of a NUMA node */
    TOPOLOGY_SYS,  /* between NUMA nodes */
    TOPOLOGY_UNKNOWN,
    N_TOPOLOGY_PATHS
};
extern const char *const topology_path_names[]; /* "X", "NV", "PIX", ..., NULL */
enum { TOPOLOGY_MOST_DEVICES = 128 };

struct topology {
    int n_gpus;
    int n_nics;
    const char *nic_names[TOPOLOGY_MOST_DEVICES];  /* of the legend where there is one: "mlx5_4" */
    const char *affinities[TOPOLOGY_MOST_DEVICES]; /* of GPUs: CPUs and NUMA node as printed, or "" */
    enum topology_path gpu_paths[TOPOLOGY_MOST_DEVICES][TOPOLOGY_MOST_DEVICES];
    int gpu_links[TOPOLOGY_MOST_DEVICES][TOPOLOGY_MOST_DEVICES];                /* NVLinks between two */
    enum topology_path nic_paths[TOPOLOGY_MOST_DEVICES][TOPOLOGY_MOST_DEVICES]; /* GPU by NIC */
};
/* Copies into arena. The result has notes of the lines, and no runs. */
bool import_topology(struct sp_arena *arena, const struct import_text *text, struct topology *topology,
                     struct import_result *result, struct sp_error *err) SP_MUST_CHECK;

/* ---- a topology as a hardware file (import_node.c, node_file.c) ------------------------------------------------- */

struct import_node_given {
    const char *gpu;     /* name in hardware/gpus */
    const char *network; /* name in hardware/networks, or NULL */
    const char *name;    /* of the file that will be */
    const char *source;  /* where the topology comes from */
};
/* The text of a hardware file. What the schema of such files cannot say is a warning. Copies into arena. */
const char *import_node_text(struct sp_arena *arena, const struct topology *topology,
                             const struct import_node_given *given, struct sp_texts *warnings, struct sp_error *err);

#endif

/* What plan takes beside a question: axes as lists of values, the objective, constraints. */
#include "cmd/command.h"

#include <string.h>

static const char the_space[] = "The space (what is left open is searched)";
static const char the_ranking[] = "The ranking";
static const char *const zero_names[] = {"0", "1", "2", "3", NULL};

/* Where a member lies in struct command_options. */
#define AT(member) .offset = offsetof(struct command_options, plan.member)
/* An axis whose values are counts. */
#define COUNTS(option, member, text)                                                                                   \
    {                                                                                                                  \
        .name = (option), .type = SP_OPTION_TEXT, AT(member), .argument = "N,...", .group = the_space, .help = (text)  \
    }

enum { MOST_THREADS = 1024, MOST_TOP = 1000 };

const struct sp_option plan_options[] = {
    /* Rows of a question that mean something else here. */
    {.name = "global-batch",
     .type = SP_OPTION_TEXT,
     .offset = offsetof(struct command_options, request.global_batch),
     .argument = "N|Ntok",
     .group = "The question",
     .help = "sequences per optimizer step, of every layout, or tokens as in 16Mtok; default: 16 Mi tokens' worth, "
             "raised so "
             "that each --dp and --micro-batch and the odd part of the GPUs divide it (not beyond twice as many), then "
             "by an "
             "eighth at most to divide over many ranks"},
    {.name = "pp-layers",
     .type = SP_OPTION_TEXT,
     .offset = offsetof(struct command_options, request.pp_layers),
     .argument = "auto|padded|A,B,...",
     .group = "Layout",
     .help = "layers per stage, as in estimate; default: auto where they do not divide"},
    {.name = "layout",
     .type = SP_OPTION_TEXT,
     .offset = offsetof(struct command_options, request.layout_file),
     .argument = "FILE|-",
     .group = "Layout",
     .help = "refused: plan searches for the layout; what is fixed of it is said by the axes above"},
    {.name = "only",
     .type = SP_OPTION_TEXT,
     .offset = offsetof(struct command_options, request.only),
     .argument = "attention",
     .group = "The answer",
     .help = "refused: plan ranks whole steps"},

    COUNTS("tp", tp, "tensor-parallel degrees"),
    {.name = "sp",
     .alias = "cp",
     .type = SP_OPTION_TEXT,
     AT(sp),
     .argument = "N,...",
     .group = the_space,
     .help = "sequence-parallel (context-parallel) degrees"},
    {.name = "sp-method",
     .type = SP_OPTION_TEXT,
     AT(methods),
     .argument = "M,...",
     .group = the_space,
     .help = "methods over sp, as zigzag,ulysses; default: all that the frameworks have"},
    COUNTS("sp-ulysses", sp_ulysses, "Ulysses degrees inside usp"),
    COUNTS("sp-inner", sp_inner, "inner rings of double-ring"),
    COUNTS("pp", pp, "pipeline stages"),
    COUNTS("vpp", vpp, "virtual stages per rank"),
    {.name = "schedule",
     .type = SP_OPTION_TEXT,
     AT(schedules),
     .argument = "S,...",
     .group = the_space,
     .help = "pipeline schedules; default: those that the framework has"},
    COUNTS("dp", dp, "data-parallel degrees"),
    COUNTS("ep", ep, "expert-parallel degrees; default: the divisors of the experts"),
    COUNTS("etp", etp, "tensor-parallel degrees of the experts; default 1"),
    COUNTS("micro-batch", micro_batch, "sequences per micro-batch and data-parallel rank"),
    {.name = "framework",
     .type = SP_OPTION_TEXT,
     AT(frameworks),
     .argument = "F,...",
     .group = the_space,
     .help = "whose implementations; default: all but ideal, which is a bound"},
    {.name = "recompute",
     .type = SP_OPTION_TEXT,
     AT(recomputes),
     .argument = "R,...",
     .group = the_space,
     .help = "none, selective, full, block:N; default: all of them, with every N"},
    {.name = "zero",
     .type = SP_OPTION_TEXT,
     AT(zeros),
     .argument = "Z,...",
     .group = the_space,
     .help = "stages 0 to 3"},
    {.name = "offload",
     .type = SP_OPTION_TEXT,
     AT(offloads),
     .argument = "W,...",
     .group = the_space,
     .help = "sets separated by commas, + inside a set: none,activations,activations+optimizer. The "
             "activations,optimizer of estimate is one set: here activations+optimizer"},
    {.name = "order",
     .type = SP_OPTION_TEXT,
     AT(orders),
     .argument = "O,...",
     .group = the_space,
     .help =
         "placement orders, the fastest axis first, as tp-cp-ep-dp-pp; default: all that differ; one alone may also "
         "be given as --set layout.order=O"},

    {.name = "objective",
     .type = SP_OPTION_CHOICE,
     AT(objective),
     .names = plan_objective_names,
     .argument = "O",
     .group = the_ranking,
     .help = "what ranks; gpus and cost try smaller clusters too; cost takes gpu.price; default throughput"},
    {.name = "top",
     .type = SP_OPTION_COUNT,
     AT(top),
     .max = MOST_TOP,
     .argument = "N",
     .group = the_ranking,
     .help = "how many are ranked beside the Pareto front; default 6"},
    {.name = "max-memory",
     .type = SP_OPTION_TEXT,
     AT(max_memory),
     .argument = "SIZE",
     .group = the_ranking,
     .help = "largest peak of a GPU, as 70GiB"},
    {.name = "headroom",
     .type = SP_OPTION_TEXT,
     AT(headroom),
     .argument = "SIZE|P%",
     .group = the_ranking,
     .help = "memory of a GPU to be left free, as 8GiB or 10%"},
    {.name = "max-gpus",
     .type = SP_OPTION_COUNT,
     AT(max_gpus),
     .argument = "N",
     .group = the_ranking,
     .help = "tries smaller clusters too, up to this one"},
    {.name = "min-mfu",
     .type = SP_OPTION_TEXT,
     AT(min_mfu),
     .argument = "P%",
     .group = the_ranking,
     .help = "least MFU, as 35% or 0.35"},
    {.name = "deadline",
     .type = SP_OPTION_TEXT,
     AT(deadline),
     .argument = "TIME",
     .group = the_ranking,
     .help = "longest run of --tokens, as 30d"},
    {.name = "threads",
     .type = SP_OPTION_COUNT,
     AT(threads),
     .max = MOST_THREADS,
     .argument = "N",
     .group = the_ranking,
     .help = "threads of the search; the answer is the same with any number; default: one per core"},
    {.name = NULL},
};

/* One reading of a command line. */
struct reading {
    struct sp_arena *arena;
    struct plan_question *question;
    struct sp_error *err;
};

/* ---- axes -------------------------------------------------------------------------------------------------------- */

static bool read_counts(const struct reading *reading, const struct plan_typed *typed)
{
    struct plan_axes *axes = &reading->question->axes;
    const struct {
        const char *name;
        const char *text;
        struct plan_counts *counts;
    } lists[] = {
        {"tp", typed->tp, &axes->tp},
        {"sp", typed->sp, &axes->sp},
        {"sp-ulysses", typed->sp_ulysses, &axes->sp_ulysses},
        {"sp-inner", typed->sp_inner, &axes->sp_inner},
        {"pp", typed->pp, &axes->pp},
        {"vpp", typed->vpp, &axes->vpp},
        {"dp", typed->dp, &axes->dp},
        {"ep", typed->ep, &axes->ep},
        {"etp", typed->etp, &axes->etp},
        {"micro-batch", typed->micro_batch, &axes->micro_batch},
    };
    for (size_t i = 0; i < SP_COUNT_OF(lists); i++) {
        const struct option_list list = {lists[i].name, lists[i].text, "1,2,8"};
        if (list.text != NULL && !option_list_counts(&list, reading->arena, lists[i].counts, reading->err)) {
            return false;
        }
    }
    for (int i = 0; i < axes->micro_batch.n; i++) {
        if (axes->micro_batch.values[i] > largest_micro_batch) {
            return sp_fail_rule(reading->err, "micro_batch", "micro-batch %lld: expected at most %lld sequences",
                                (long long)axes->micro_batch.values[i], (long long)largest_micro_batch);
        }
    }
    return true;
}

static bool read_names(const struct reading *reading, const struct plan_typed *typed)
{
    struct plan_axes *axes = &reading->question->axes;
    const struct {
        struct option_list list;
        const char *const *names;
        unsigned *bits;
    } lists[] = {
        {{"sp-method", typed->methods, "zigzag,ulysses"}, method_names, &axes->methods},
        {{"framework", typed->frameworks, "megatron,torch"}, framework_names, &axes->frameworks},
        {{"schedule", typed->schedules, "1f1b,interleaved"}, schedule_names, &axes->schedules},
        {{"zero", typed->zeros, "1,3"}, zero_names, &axes->zeros},
    };
    for (size_t i = 0; i < SP_COUNT_OF(lists); i++) {
        if (lists[i].list.text != NULL &&
            !option_list_names(&lists[i].list, lists[i].names, lists[i].bits, reading->err)) {
            return false;
        }
    }
    return true;
}

static bool read_recomputes(const struct reading *reading, const char *text)
{
    const struct option_list list = {"recompute", text, "none,full,block:3"};
    struct sp_texts items;
    if (text == NULL) {
        return true;
    }
    if (!option_list_items(&list, reading->arena, &items, reading->err)) {
        return false;
    }
    struct plan_recompute *recomputes = sp_arena_array(reading->arena, items.count, sizeof(*recomputes));
    for (size_t i = 0; i < items.count; i++) {
        if (!recompute_parse(items.items[i], &recomputes[i].kind, &recomputes[i].layers, reading->err)) {
            sp_error_prefix(reading->err, "--recompute");
            return false;
        }
        for (size_t before = 0; before < i; before++) {
            if (recomputes[before].kind == recomputes[i].kind && recomputes[before].layers == recomputes[i].layers) {
                return sp_fail(reading->err, SP_ERROR_USAGE, "--recompute: \"%.60s\" is given twice: leave one out",
                               items.items[i]);
            }
        }
    }
    reading->question->axes.recomputes = recomputes;
    reading->question->axes.n_recomputes = (int)items.count;
    return true;
}

/* "activations+optimizer" as the bits of enum plan_offload. */
static bool read_offload_set(const struct reading *reading, const char *text, unsigned *set)
{
    char *commas = sp_strdup(reading->arena, text);
    for (char *at = commas; *at != '\0'; at++) {
        if (*at == '+') {
            *at = ',';
        }
    }
    struct layout_spec layout = {0};
    struct sp_error ignored = {0};
    if (!offload_parse(reading->arena, commas, &layout, &ignored)) {
        return sp_fail(reading->err, SP_ERROR_USAGE,
                       "--offload: expected none, activations, optimizer or parameters, joined by + within a set as in "
                       "\"none,activations+optimizer\", found \"%.60s\"",
                       text);
    }
    *set = (layout.offloads_activations ? (unsigned)PLAN_OFFLOAD_ACTIVATIONS : 0U) |
           (layout.offloads_optimizer ? (unsigned)PLAN_OFFLOAD_OPTIMIZER : 0U) |
           (layout.offloads_parameters ? (unsigned)PLAN_OFFLOAD_PARAMETERS : 0U);
    return true;
}

static bool read_offloads(const struct reading *reading, const char *text)
{
    const struct option_list list = {"offload", text, "none,activations+optimizer"};
    struct sp_texts items;
    if (text == NULL) {
        return true;
    }
    if (!option_list_items(&list, reading->arena, &items, reading->err)) {
        return false;
    }
    unsigned *sets = &reading->question->axes.offloads;
    for (size_t i = 0; i < items.count; i++) {
        unsigned set = 0;
        if (!read_offload_set(reading, items.items[i], &set)) {
            return false;
        }
        if ((*sets >> set & 1U) != 0) {
            return sp_fail(reading->err, SP_ERROR_USAGE,
                           "--offload: \"%.60s\" is given twice in another order: leave one out", items.items[i]);
        }
        *sets |= 1U << set;
    }
    return true;
}

/* ---- placement --------------------------------------------------------------------------------------------------- */

/* The value of --set layout.order, the last one given; or NULL. */
static const char *set_order(const struct request *request)
{
    static const char path[] = "layout.order=";
    const char *value = NULL;
    for (size_t i = 0; i < request->set.count; i++) {
        bool is_order = strncmp(request->set.items[i], path, strlen(path)) == 0;
        value = is_order ? request->set.items[i] + strlen(path) : value;
    }
    return value;
}

static bool read_orders(const struct reading *reading, const struct command_options *options)
{
    const char *set = set_order(&options->request);
    const char *text = options->plan.orders;
    if (set != NULL && text != NULL) {
        return sp_fail(reading->err, SP_ERROR_USAGE,
                       "--order and --set layout.order say the same: give one of the two");
    }
    struct option_list list = {text != NULL ? "order" : "set layout.order", text != NULL ? text : set,
                               "tp-cp-ep-dp-pp,tp-cp-ep-pp-dp"};
    struct sp_texts items;
    if (list.text == NULL) {
        return true;
    }
    if (!option_list_items(&list, reading->arena, &items, reading->err)) {
        return false;
    }
    /* cppcheck-suppress AssignmentAddressToInteger ; a pointer to arrays, which it takes for an integer */
    enum axis(*orders)[N_AXES] = sp_arena_array(reading->arena, items.count, sizeof(*orders));
    for (size_t i = 0; i < items.count; i++) {
        if (!order_parse(reading->arena, items.items[i], orders[i], reading->err)) {
            sp_error_prefix(reading->err, "--%s", list.name);
            return false;
        }
    }
    reading->question->axes.orders = (const enum axis(*)[N_AXES])orders;
    reading->question->axes.n_orders = (int)items.count;
    return true;
}

/* ---- constraints ------------------------------------------------------------------------------------------------- */

static bool read_quantity(const struct reading *reading, const char *name, const char *text,
                          enum sp_dimension dimension, double *value)
{
    if (text == NULL) {
        return true;
    }
    if (!sp_quantity_parse(text, dimension, value, reading->err)) {
        sp_error_prefix(reading->err, "--%s", name);
        return false;
    }
    return *value > 0.0 || dimension == SP_FRACTION || /* a share of 0 asks for nothing */
           sp_fail(reading->err, SP_ERROR_USAGE, "--%s: expected more than 0, found \"%.60s\"", name, text);
}

/* "8GiB" or "10%". */
static bool read_headroom(const struct reading *reading, const char *text)
{
    struct plan_question *question = reading->question;
    struct sp_error ignored = {0};
    if (text == NULL || strcmp(text, "0") == 0) {
        return true;
    }
    size_t length = strlen(text);
    if (length > 0 && text[length - 1] == '%') {
        return read_quantity(reading, "headroom", text, SP_FRACTION, &question->headroom_frac);
    }
    if (sp_quantity_parse(text, SP_BYTES, &question->headroom_bytes, &ignored)) {
        return true;
    }
    return sp_fail(reading->err, SP_ERROR_USAGE,
                   "--headroom: expected a size such as \"8GiB\" or a share such as \"10%%\", found \"%.60s\"", text);
}

static bool read_constraints(const struct reading *reading, const struct plan_typed *typed)
{
    struct plan_question *question = reading->question;
    question->max_gpus = typed->max_gpus.is_given ? typed->max_gpus.value : 0;
    question->n_threads = typed->threads.is_given ? (int)typed->threads.value : 0;
    question->n_top = typed->top.is_given ? (int)typed->top.value : question->n_top;
    question->objective = (enum plan_objective)typed->objective;
    if (typed->deadline != NULL && !question->request.tokens.is_given) {
        return sp_fail(reading->err, SP_ERROR_USAGE,
                       "--deadline is for a whole run: add --tokens, as in --tokens 15T --deadline 30d");
    }
    if (typed->deadline != NULL &&
        !sp_quantity_parse(typed->deadline, SP_SECONDS, &question->deadline_s, &(struct sp_error){0})) {
        return sp_fail(reading->err, SP_ERROR_USAGE,
                       "--deadline: expected a time with its unit such as \"30d\" or \"12h\", found \"%.60s\"",
                       typed->deadline);
    }
    return read_quantity(reading, "max-memory", typed->max_memory, SP_BYTES, &question->max_memory_bytes) &&
           read_quantity(reading, "min-mfu", typed->min_mfu, SP_FRACTION, &question->min_mfu_frac) &&
           read_quantity(reading, "deadline", typed->deadline, SP_SECONDS, &question->deadline_s) &&
           read_headroom(reading, typed->headroom);
}

bool plan_options_read(const struct command_options *options, struct sp_arena *arena, struct plan_question *question,
                       struct sp_error *err)
{
    const struct reading reading = {arena, question, err};
    plan_question_init(question, arena);
    question->request = options->request;
    if (options->request.layout_file != NULL) {
        return sp_fail(err, SP_ERROR_USAGE,
                       "plan searches for a layout and reads none: leave out --layout, and restrict what is fixed with "
                       "--tp, --sp, ...");
    }
    if (options->request.only != NULL) {
        return sp_fail(err, SP_ERROR_USAGE,
                       "plan ranks whole steps: leave out --only (compare --only attention sets "
                       "the methods side by side)");
    }
    return read_counts(&reading, &options->plan) && read_names(&reading, &options->plan) &&
           read_recomputes(&reading, options->plan.recomputes) && read_offloads(&reading, options->plan.offloads) &&
           read_orders(&reading, options) && read_constraints(&reading, &options->plan);
}

/* ---- after the cluster is known ---------------------------------------------------------------------------------- */

static const char *divisors_text(struct sp_arena *arena, int64_t of)
{
    enum { MOST = 24 };
    struct sp_texts texts = {.arena = arena};
    for (int64_t d = 1; d <= of && texts.count < MOST; d++) {
        if (of % d == 0) {
            sp_texts_add(&texts, "%lld", (long long)d);
        }
    }
    return sp_join(arena, texts.items, texts.count, ", ");
}

bool plan_options_check(const struct plan_question *question, struct sp_arena *arena, struct sp_error *err)
{
    const struct plan_axes *axes = &question->axes;
    bool is_one_cluster =
        question->max_gpus == 0 && (question->objective == PLAN_THROUGHPUT || question->objective == PLAN_MEMORY);
    int64_t gpus = question->request.gpus.value;
    const struct {
        const char *name;
        const struct plan_counts *counts;
    } degrees[] = {{"tp", &axes->tp}, {"sp", &axes->sp}, {"pp", &axes->pp}, {"dp", &axes->dp}};
    for (size_t i = 0; is_one_cluster && i < SP_COUNT_OF(degrees); i++) {
        const struct plan_counts *counts = degrees[i].counts;
        bool has_divisor = counts->n == 0;
        for (int j = 0; j < counts->n; j++) {
            has_divisor = has_divisor || gpus % counts->values[j] == 0;
        }
        if (!has_divisor) { /* one that does not among others is a rejection of the plan */
            return sp_fail_rule(err, "gpus_product", "--%s: %lld does not divide %lld gpus; legal here: %s",
                                degrees[i].name, (long long)counts->values[0], (long long)gpus,
                                divisors_text(arena, gpus));
        }
    }
    return true;
}

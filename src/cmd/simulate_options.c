/* What simulate takes beside a question: how exactly it runs, what disturbs the cluster, and files of the step. */
#include "cmd/command.h"

#include <string.h>

static const char the_disturbances[] = "Disturbances";
static const char the_simulation[] = "The simulation";
static const char the_answer[] = "The answer";

/* Where a member lies in struct command_options. */
#define AT(member) .offset = offsetof(struct command_options, simulate.member)

enum { MOST_CHUNKS = 1024 };

const struct sp_option simulate_options[] = {
    {.name = "only",
     .type = SP_OPTION_TEXT,
     .offset = offsetof(struct command_options, request.only),
     .argument = "attention",
     .group = "The answer",
     .is_hidden = true},
    {.name = "exact",
     .type = SP_OPTION_FLAG,
     AT(is_exact),
     .group = the_simulation,
     .help = "runs every rank and every step of every collective on its own; default: those that behave alike once"},
    {.name = "chunks",
     .type = SP_OPTION_COUNT,
     AT(chunks),
     .max = MOST_CHUNKS,
     .argument = "N",
     .group = the_simulation,
     .help = "pieces that each step of a collective is sent in; default 1"},
    {.name = "slow-gpu",
     .type = SP_OPTION_LIST,
     AT(slow_gpus),
     .argument = "GPU=SPEED,...",
     .group = the_disturbances,
     .help = "kernels of this GPU (counted from 0) run at a share of their speed, as 3=0.8; may be repeated"},
    {.name = "slow-link",
     .type = SP_OPTION_LIST,
     AT(slow_links),
     .argument = "LINKS=SHARE[,PERIOD,SLOW]",
     .group = the_disturbances,
     .help = "links with a share of their rate, as nic:2.5=0.5 (NIC 5 of node 2), nvlink:3=0.25 (GPU 3), pcie:3, "
             "leaf:0.3, nic:*; flapping, slow for 2 ms in every 10 ms: nic:2.5=0.1,10ms,2ms; may be repeated"},
    {.name = "jitter",
     .type = SP_OPTION_TEXT,
     AT(jitter),
     .argument = "FRAC",
     .group = the_disturbances,
     .help = "kernels take longer by a random share with this mean, as 0.02 or 2%; default 0"},
    {.name = "background",
     .type = SP_OPTION_TEXT,
     AT(background),
     .argument = "FRAC",
     .group = the_disturbances,
     .help = "share of every network link that others use, as 0.3; default 0"},
    {.name = "seed",
     .type = SP_OPTION_COUNT,
     AT(seed),
     .argument = "N",
     .group = the_disturbances,
     .help = "of what is random: the same seed gives the same step; default 1"},
    {.name = "trace",
     .type = SP_OPTION_TEXT,
     AT(trace),
     .argument = "FILE[.gz]",
     .group = the_answer,
     .help = "every span of the step and the memory of each rank, for ui.perfetto.dev or chrome://tracing"},
    {.name = "gantt",
     .type = SP_OPTION_TEXT,
     AT(gantt),
     .argument = "FILE.svg|png|pdf",
     .group = the_answer,
     .help = "a chart of who does what when, through gnuplot; - is the terminal"},
    {.name = "gantt-of",
     .type = SP_OPTION_CHOICE,
     AT(gantt_of),
     .names = gantt_of_names,
     .argument = "step|layer",
     .group = the_answer,
     .help = "the whole step, a row for each rank, or the attention of one layer with its transfers; default step"},
    {.name = NULL},
};

/* ---- without the question ---------------------------------------------------------------------------------------- */

/* "0.05" or "5%": below 1, or up to it where it may be. */
static bool read_share(const char *option, const char *text, double *share, struct sp_error *err)
{
    *share = 0.0;
    if (text == NULL) {
        return true;
    }
    if (!sp_quantity_parse(text, SP_FRACTION, share, err)) {
        sp_error_prefix(err, "--%s", option);
        return false;
    }
    return true;
}

static bool check_background(const char *text, double *share, struct sp_error *err)
{
    if (!read_share("background", text, share, err)) {
        return false;
    }
    return *share < 1.0 || sp_fail(err, SP_ERROR_USAGE,
                                   "--background: expected a share below 1, so that something is left of the "
                                   "network, found \"%.60s\"",
                                   text);
}

static bool check_files(const struct command_options *options, struct sp_error *err)
{
    const struct simulate_typed *typed = &options->simulate;
    if (typed->gantt == NULL) {
        return typed->gantt_of < 0 ||
               sp_fail(err, SP_ERROR_USAGE, "--gantt-of says what --gantt draws: give --gantt FILE.svg too");
    }
    bool is_listed = options->format == REPORT_CSV || options->format == REPORT_JSON;
    if (strcmp(typed->gantt, "-") == 0 && is_listed) {
        return sp_fail(err, SP_ERROR_USAGE,
                       "--gantt -: the chart would stand inside the %s; give it a file, or leave out --format",
                       report_format_names[options->format]);
    }
    return true;
}

bool simulate_options_check(const struct command_options *options, struct sp_error *err)
{
    const struct simulate_typed *typed = &options->simulate;
    double ignored = 0.0;
    if (options->request.only != NULL) {
        return sp_fail(err, SP_ERROR_USAGE,
                       "simulate runs whole steps: leave out --only (--gantt-of layer draws one layer's attention)");
    }
    bool is_random = typed->jitter != NULL;
    if (typed->seed.is_given && !is_random) {
        return sp_fail(err, SP_ERROR_USAGE, "--seed: nothing here is random; give --jitter, or leave it out");
    }
    return read_share("jitter", typed->jitter, &ignored, err) && check_background(typed->background, &ignored, err) &&
           check_files(options, err);
}

/* ---- of a question ----------------------------------------------------------------------------------------------- */

/* "3=0.8" as "3" and 0.8; the text before the last '=' that follows the name. */
struct setting {
    const char *option;
    const char *name;
    const char *value;
};

static bool split_setting(struct sp_arena *arena, const char *text, const char *example, struct setting *setting,
                          struct sp_error *err)
{
    const char *equals = strchr(text, '=');
    if (equals == NULL || equals == text || equals[1] == '\0') {
        return sp_fail(err, SP_ERROR_USAGE, "--%s: expected %s, found \"%.80s\"", setting->option, example, text);
    }
    setting->name = sp_strndup(arena, text, (size_t)(equals - text));
    setting->value = equals + 1;
    return true;
}

/* A share above 0: what has stopped never ends a step. */
static bool read_left(const struct setting *setting, const char *text, double *share, struct sp_error *err)
{
    if (!sp_quantity_parse(text, SP_FRACTION, share, err)) {
        sp_error_prefix(err, "--%s %.60s", setting->option, setting->name);
        return false;
    }
    return *share > 0.0 || sp_fail(err, SP_ERROR_USAGE,
                                   "--%s %.60s: expected a share above 0: a step does not end on what stands still",
                                   setting->option, setting->name);
}

static bool read_slow_gpu(struct sp_arena *arena, const char *text, int64_t gpus, struct sim_slow_gpu *slow,
                          struct sp_error *err)
{
    struct setting setting = {.option = "slow-gpu"};
    if (!split_setting(arena, text, "GPU=SPEED as in 3=0.8", &setting, err)) {
        return false;
    }
    struct sp_error ignored = {.kind = SP_ERROR_NONE};
    double gpu = 0.0;
    if (!sp_quantity_parse(setting.name, SP_COUNT, &gpu, &ignored) || gpu >= (double)gpus) {
        return sp_fail(err, SP_ERROR_USAGE, "--slow-gpu: expected a GPU from 0 to %lld, found \"%.60s\"",
                       (long long)gpus - 1, setting.name);
    }
    slow->gpu = (int64_t)gpu;
    return read_left(&setting, setting.value, &slow->speed, err);
}

static bool read_slow_gpus(const struct sp_texts *typed, int64_t gpus, struct sp_arena *arena, struct sim_options *sim,
                           struct sp_error *err)
{
    struct sp_texts all = {.arena = arena};
    for (size_t i = 0; i < typed->count; i++) {
        const struct option_list list = {"slow-gpu", typed->items[i], "3=0.8"};
        struct sp_texts items;
        if (!option_list_items(&list, arena, &items, err)) {
            return false;
        }
        for (size_t item = 0; item < items.count; item++) {
            sp_texts_add(&all, "%s", items.items[item]);
        }
    }
    struct sim_slow_gpu *slow = sp_arena_array(arena, all.count + 1, sizeof(*slow));
    for (size_t i = 0; i < all.count; i++) {
        if (!read_slow_gpu(arena, all.items[i], gpus, &slow[i], err)) {
            return false;
        }
        for (size_t before = 0; before < i; before++) {
            if (slow[before].gpu == slow[i].gpu) {
                return sp_fail(err, SP_ERROR_USAGE, "--slow-gpu: GPU %lld has two speeds: leave one out",
                               (long long)slow[i].gpu);
            }
        }
    }
    sim->slow_gpus = slow;
    sim->n_slow_gpus = (int)all.count;
    return true;
}

static bool read_time(const struct setting *setting, const char *text, double *seconds, struct sp_error *err)
{
    if (!sp_quantity_parse(text, SP_SECONDS, seconds, err)) {
        sp_error_prefix(err, "--%s %.60s", setting->option, setting->name);
        return false;
    }
    return *seconds > 0.0 || sp_fail(err, SP_ERROR_USAGE, "--%s %.60s: expected a time above 0, found \"%.60s\"",
                                     setting->option, setting->name, text);
}

/* "SHARE" or "SHARE,PERIOD,SLOW". */
static bool read_slow_link(struct sp_arena *arena, const char *text, struct sim_slow_link *slow, struct sp_error *err)
{
    enum { SHARE, PERIOD, SLOW, N_PARTS };
    static const char example[] =
        "LINKS=SHARE as in nic:2.5=0.5, or LINKS=SHARE,PERIOD,SLOW as in nic:2.5=0.1,10ms,2ms";
    struct setting setting = {.option = "slow-link"};
    if (!split_setting(arena, text, example, &setting, err)) {
        return false;
    }
    const char *parts[N_PARTS] = {NULL};
    int n_parts = 0;
    for (const char *at = setting.value; at != NULL; n_parts++) {
        size_t length = strcspn(at, ",");
        if (n_parts == N_PARTS || length == 0) {
            return sp_fail(err, SP_ERROR_USAGE, "--slow-link: expected %s, found \"%.80s\"", example, text);
        }
        parts[n_parts] = sp_strndup(arena, at, length);
        at = at[length] == ',' ? at + length + 1 : NULL;
    }
    slow->links = setting.name;
    if (n_parts != 1 && n_parts != N_PARTS) {
        return sp_fail(err, SP_ERROR_USAGE, "--slow-link: expected %s, found \"%.80s\"", example, text);
    }
    if (!read_left(&setting, parts[SHARE], &slow->share, err)) {
        return false;
    }
    if (n_parts == 1) {
        return true;
    }
    if (!read_time(&setting, parts[PERIOD], &slow->period_s, err) ||
        !read_time(&setting, parts[SLOW], &slow->slow_s, err)) {
        return false;
    }
    return slow->slow_s < slow->period_s ||
           sp_fail(err, SP_ERROR_USAGE,
                   "--slow-link %.60s: slow for %s in every %s is always slow: leave both out, or give a longer period",
                   slow->links, parts[SLOW], parts[PERIOD]);
}

static bool read_slow_links(const struct sp_texts *typed, struct sp_arena *arena, struct sim_options *sim,
                            struct sp_error *err)
{
    struct sim_slow_link *slow = sp_arena_array(arena, typed->count + 1, sizeof(*slow));
    for (size_t i = 0; i < typed->count; i++) {
        if (!read_slow_link(arena, typed->items[i], &slow[i], err)) {
            return false;
        }
    }
    sim->slow_links = slow;
    sim->n_slow_links = (int)typed->count;
    return true;
}

bool simulate_options_read(const struct command_options *options, const struct question *question,
                           struct sp_arena *arena, struct sim_options *sim, struct sp_error *err)
{
    const struct simulate_typed *typed = &options->simulate;
    *sim = (struct sim_options){
        .is_exact = typed->is_exact,
        .chunks = typed->chunks.is_given ? (int)typed->chunks.value : 1,
        .seed = typed->seed.is_given ? (uint64_t)typed->seed.value : 1,
    };
    return read_share("jitter", typed->jitter, &sim->jitter_frac, err) &&
           check_background(typed->background, &sim->background_frac, err) &&
           read_slow_gpus(&typed->slow_gpus, question->run.gpus, arena, sim, err) &&
           read_slow_links(&typed->slow_links, arena, sim, err);
}

bool simulate_is_disturbed(const struct sim_options *sim)
{
    return sim->n_slow_gpus > 0 || sim->n_slow_links > 0 || sim->jitter_frac > 0.0 || sim->background_frac > 0.0;
}

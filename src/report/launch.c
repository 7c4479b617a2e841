/* A layout through the table of a launcher. */
#include "report/launch.h"

#include <assert.h>
#include <string.h>

static const struct launcher *const launchers[] = {
    &launch_megatron_lm, &launch_megatron_bridge, &launch_deepspeed, &launch_torchtitan, &launch_openrlhf,
    &launch_accelerate,  &launch_axolotl,         &launch_verl,      &launch_automodel,  &launch_maxtext};

const char *const launcher_names[] = {"megatron-lm",    "megatron-bridge", "deepspeed", "torchtitan",
                                      "openrlhf",       "accelerate",      "axolotl",   "verl",
                                      "nemo-automodel", "maxtext",         NULL};
static_assert(SP_COUNT_OF(launcher_names) == SP_COUNT_OF(launchers) + 1, "a name for each launcher");

const struct launcher *launcher_of(int index)
{
    assert(index >= 0 && (size_t)index < SP_COUNT_OF(launchers));
    assert(strcmp(launchers[index]->name, launcher_names[index]) == 0);
    return launchers[index];
}

const struct launcher *launcher_home(enum framework_id framework)
{
    switch (framework) {
    case FRAMEWORK_MEGATRON:
        return &launch_megatron_lm;
    case FRAMEWORK_TORCH:
        return &launch_torchtitan;
    case FRAMEWORK_DEEPSPEED:
    case FRAMEWORK_ALST:
        return &launch_deepspeed;
    case FRAMEWORK_RING_FLASH_ATTN:
        return &launch_axolotl;
    case FRAMEWORK_IDEAL:
    case N_FRAMEWORKS:
        break;
    }
    return NULL;
}

enum framework_id launcher_framework(const struct launcher *launcher, enum method_id method)
{
    for (int i = 0; i < launcher->n_engines; i++) {
        if ((launcher->engines[i]->methods & LAUNCH_BIT(method)) != 0) {
            return launcher->engines[i]->framework;
        }
    }
    return launcher->engines[0]->framework;
}

static const struct launch_engine *find_engine(struct sp_arena *arena, const struct question *question,
                                               const struct launcher *launcher, struct sp_error *err)
{
    struct sp_texts runs = {.arena = arena};
    for (int i = 0; i < launcher->n_engines; i++) {
        if (launcher->engines[i]->framework == question->layout.framework) {
            return launcher->engines[i];
        }
        sp_texts_add(&runs, "%s", framework_names[launcher->engines[i]->framework]);
    }
    enum framework_id framework = question->layout.framework;
    const struct launcher *home = launcher_home(framework);
    const char *other = home == NULL ? "" : sp_format(arena, ", or --for %s", home->name);
    (void)sp_fail_rule(err, "launch",
                       "%s runs %s, and the layout is priced as %s: price and launch it with --framework %s%s",
                       launcher->title, sp_join(arena, runs.items, runs.count, " or "), framework_names[framework],
                       framework_names[launcher_framework(launcher, question->layout.method)], other);
    return NULL;
}

/* ---- what no table of a launcher says --------------------------------------------------------------------------- */

static const char *says_documents(const struct launch_case *it)
{
    return sp_format(it->arena,
                     "priced for packed documents of %s tokens: packing and the mask between documents are settings of "
                     "the data set",
                     sp_tokens_print(it->arena, it->question->run.document_tokens));
}

static bool is_said(const struct launch_engine *engine, const char *setting)
{
    for (const char *const *said = engine->settings; said != NULL && *said != NULL; said++) {
        if (strncmp(*said, setting, strlen(*said)) == 0) {
            return true;
        }
    }
    return false;
}

static const char *says_mask(const struct launch_case *it)
{
    const struct run_spec *run = &it->question->run;
    bool is_usual = run->mask == MASK_MODEL || run->mask == MASK_CAUSAL;
    return is_usual || (run->mask == MASK_WINDOW && is_said(it->engine, "mask.window"))
               ? NULL
               : sp_format(it->arena, "--mask %s is no argument of this list: the model's own code decides the mask",
                           report_mask_text(it->arena, run));
}

/* Overrides of run and model are part of what is launched; those of the machine are not. */
static const char *says_settings(const struct launch_case *it)
{
    static const char run[] = "run.";
    static const char model[] = "model.";
    struct sp_texts left = {.arena = it->arena};
    for (size_t i = 0; i < it->question->set.count; i++) {
        const char *setting = it->question->set.items[i];
        bool is_launched = strncmp(setting, run, strlen(run)) == 0 || strncmp(setting, model, strlen(model)) == 0;
        if (is_launched && !is_said(it->engine, setting)) {
            sp_texts_add(&left, "--set %s", setting);
        }
    }
    return left.count == 0 ? NULL
                           : sp_format(it->arena, "priced with %s, which these lines do not say: see to it yourself",
                                       sp_join(it->arena, left.items, left.count, " "));
}

static const char *says_kernels(const struct launch_case *it)
{
    enum kernels_id asked = it->question->layout.kernels;
    bool is_said_elsewhere = it->engine->chooses_kernels && asked != KERNELS_TE;
    return (int)asked == it->question->software.framework.kernels || is_said_elsewhere
               ? NULL
               : sp_format(it->arena, "priced with %s kernels, which these lines do not choose", kernels_names[asked]);
}

static const struct launch_row shared_rows[] = {
    {.says = says_settings, .source = "spec: --set"},
    {.says = says_kernels, .source = "spec: layout.kernels"},
    {.says = says_mask, .source = "spec: run.mask"},
    {.says = says_documents, .when = launch_has_documents, .source = "spec: run.document_tokens"},
    {.key = NULL},
};

/* ---- rows to lines ---------------------------------------------------------------------------------------------- */

static bool is_last(const struct launch_row *row)
{
    return row->key == NULL && row->remark == NULL && row->says == NULL;
}

static const char *remark_of(const struct launch_case *it, const struct launch_row *row)
{
    const char *said = row->says == NULL ? NULL : row->says(it);
    if (said == NULL || row->remark == NULL) {
        return said == NULL ? row->remark : said;
    }
    return sp_format(it->arena, "%s; %s", row->remark, said);
}

/* False: the row says nothing of this layout. */
static bool fill_item(const struct launch_case *it, const struct launch_row *row, struct launch_item *item)
{
    if (row->when != NULL && !row->when(it)) {
        return false;
    }
    *item = (struct launch_item){
        .key = row->key, .value = row->fixed, .remark = remark_of(it, row), .source = row->source, .place = row->place};
    if (row->value != NULL) {
        item->value = row->value(it);
        return item->value != NULL;
    }
    return row->key != NULL || item->remark != NULL;
}

static int count_rows(const struct launch_row *rows)
{
    int count = 0;
    while (!is_last(&rows[count])) {
        count++;
    }
    return count;
}

static int fill_items(const struct launch_case *it, const struct launch_row *rows, struct launch_item *items)
{
    int count = 0;
    for (; !is_last(rows); rows++) {
        count += fill_item(it, rows, &items[count]) ? 1 : 0;
    }
    return count;
}

bool launch_build(struct sp_arena *arena, const struct question *question, const struct launcher *launcher,
                  struct launch *launch, struct sp_error *err)
{
    const struct launch_engine *engine = find_engine(arena, question, launcher, err);
    const struct launch_case it = {.arena = arena, .question = question, .engine = engine};
    if (engine == NULL || !launch_check(&it, launcher, engine, err)) {
        return false;
    }
    int most = count_rows(engine->rows) + count_rows(shared_rows);
    struct launch_item *items = sp_arena_array(arena, (size_t)most, sizeof(*items));
    int n_items = fill_items(&it, engine->rows, items);
    n_items += fill_items(&it, shared_rows, &items[n_items]);
    *launch = (struct launch){
        .launcher = launcher, .engine = engine, .question = question, .items = items, .n_items = n_items};
    return true;
}

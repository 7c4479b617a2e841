/* How far an answer depends on the machine, as keys of an answer. */
#include "report/report.h"

#include <string.h>

static const char *const unit_suffixes[N_SENSITIVITIES] = {"bytes_per_s", "bytes_per_s", "bytes_per_s",
                                                           "flop_per_s",  "s",           "bytes"};

const char *report_kept_text(struct sp_arena *arena, const struct plan_layout *kept)
{
    const struct layout_spec *layout = &kept->layout;
    const char *part = "";
    if (layout->method == METHOD_USP) {
        part = sp_format(arena, " (ulysses %lld)", (long long)layout->sp_ulysses);
    } else if (layout->method == METHOD_DOUBLE_RING) {
        part = sp_format(arena, " (inner %lld)", (long long)layout->sp_inner);
    }
    const char *ep = layout->ep > 1 ? sp_format(arena, " ep %lld", (long long)layout->ep) : "";
    return sp_format(arena, "tp %lld sp %lld %s%s pp %lld dp %lld%s, %s", (long long)layout->tp, (long long)layout->sp,
                     method_names[layout->method], part, (long long)layout->pp, (long long)layout->dp, ep,
                     framework_names[layout->framework]);
}

static void add_number(struct sp_texts *texts, const char *name, int64_t value, int64_t than)
{
    if (value != than) {
        sp_texts_add(texts, "%s %lld", name, (long long)value);
    }
}

static void add_word(struct sp_texts *texts, const char *name, const char *word, const char *than)
{
    if (strcmp(word, than) != 0) {
        sp_texts_add(texts, "%s %s", name, word);
    }
}

/* What a layout has otherwise than one of the same degrees and method. */
static const char *otherwise(struct sp_arena *arena, const struct layout_spec *layout, const struct layout_spec *than)
{
    struct sp_texts texts = {.arena = arena};
    add_number(&texts, "micro-batch", layout->micro_batch, than->micro_batch);
    add_word(&texts, "schedule", schedule_names[layout->schedule], schedule_names[than->schedule]);
    add_number(&texts, "vpp", layout->vpp, than->vpp);
    add_word(&texts, "recompute", report_recompute_text(arena, layout), report_recompute_text(arena, than));
    add_number(&texts, "zero", layout->zero, than->zero);
    add_word(&texts, "offload", layout_offload_text(arena, layout), layout_offload_text(arena, than));
    add_word(&texts, "order", report_order_text(arena, layout), report_order_text(arena, than));
    return sp_join(arena, texts.items, texts.count, ", ");
}

const char *report_winner_text(struct sp_arena *arena, const struct sensitivity *sensitivity, int winner)
{
    const struct plan_layout *other = &sensitivity->kept[winner];
    const char *text = report_kept_text(arena, other);
    bool is_another = sensitivity->winner >= 0 && winner != sensitivity->winner;
    if (!is_another || strcmp(text, report_kept_text(arena, &sensitivity->kept[sensitivity->winner])) != 0) {
        return text;
    }
    return sp_format(arena, "%s, with %s", text,
                     otherwise(arena, &other->layout, &sensitivity->kept[sensitivity->winner].layout));
}

static void put_winner(struct report_tree *tree, const struct sensitivity *sensitivity, const char *key, int winner)
{
    report_tree_string(tree, key, winner < 0 ? NULL : report_winner_text(tree->arena, sensitivity, winner));
}

static void put_change(struct report_tree *tree, const struct sensitivity *sensitivity, const char *key,
                       const struct sensitivity_change *change)
{
    report_tree_begin(tree, key, SP_JSON_OBJECT);
    report_tree_number(tree, "step_time_change_frac", change->step_time_frac);
    report_tree_bool(tree, "fits", change->fits);
    if (sensitivity->winner >= 0) {
        put_winner(tree, sensitivity, "winner", change->winner);
    }
    report_tree_end(tree);
}

/* Null: no other layout wins up to a factor of 16. Its members are, where not all was searched. */
static void put_crossing(struct report_tree *tree, const struct sensitivity *sensitivity, const char *key,
                         const struct sensitivity_crossing *crossing)
{
    if (!crossing->is_found && !crossing->is_bound) {
        report_tree_null(tree, key);
        return;
    }
    report_tree_begin(tree, key, SP_JSON_OBJECT);
    if (crossing->is_found) {
        report_tree_number(tree, "factor", crossing->factor);
        report_tree_number(tree, "value", crossing->value);
    } else {
        report_tree_null(tree, "factor");
        report_tree_null(tree, "value");
    }
    report_tree_bool(tree, "is_bound", crossing->is_bound);
    put_winner(tree, sensitivity, "winner", crossing->winner);
    report_tree_end(tree);
}

static void put_row(struct report_tree *tree, const struct sensitivity *sensitivity, enum sensitivity_figure figure)
{
    const struct sensitivity_row *row = &sensitivity->rows[figure];
    report_tree_begin(tree, sensitivity_names[figure], SP_JSON_OBJECT);
    report_tree_begin(tree, "paths", SP_JSON_ARRAY);
    for (int i = 0; sensitivity_path(figure, i) != NULL; i++) {
        report_tree_string(tree, NULL, sensitivity_path(figure, i));
    }
    report_tree_end(tree);
    report_tree_number(tree, sp_format(tree->arena, "value_%s", unit_suffixes[figure]), row->value);
    put_change(tree, sensitivity, "up", &row->up);
    put_change(tree, sensitivity, "down", &row->down);
    if (sensitivity->winner >= 0) {
        put_crossing(tree, sensitivity, "above", &row->above);
        put_crossing(tree, sensitivity, "below", &row->below);
    }
    report_tree_end(tree);
}

const struct sp_json *report_sensitivity_tree(struct sp_arena *arena, const struct sensitivity *sensitivity)
{
    struct report_tree tree;
    report_tree_open(&tree, arena);
    report_tree_number(&tree, "change_frac", sensitivity_change_frac);
    for (int f = 0; f < N_SENSITIVITIES; f++) {
        put_row(&tree, sensitivity, (enum sensitivity_figure)f);
    }
    return report_tree_close(&tree);
}

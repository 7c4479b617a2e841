/* A calibration for programs. */
#include "report/report.h"

static void put_errors(struct report_tree *tree, const char *key, const struct calibration_errors *errors)
{
    report_tree_begin(tree, key, SP_JSON_OBJECT);
    report_tree_number(tree, "n", errors->n);
    if (errors->n > 0) {
        report_tree_number(tree, "median_frac", errors->median);
        report_tree_number(tree, "worst_frac", errors->worst);
        report_tree_number(tree, "bias_frac", errors->bias);
    } else {
        report_tree_null(tree, "median_frac");
        report_tree_null(tree, "worst_frac");
        report_tree_null(tree, "bias_frac");
    }
    report_tree_end(tree);
}

static void put_share(struct report_tree *tree, const char *key, double share)
{
    if (share < 0) {
        report_tree_null(tree, key);
    } else {
        report_tree_number(tree, key, share);
    }
}

static void put_groups(struct report_tree *tree, const struct calibration *calibration)
{
    report_tree_begin(tree, "groups", SP_JSON_ARRAY);
    for (int i = 0; i < CALIBRATION_GROUPS; i++) {
        const struct calibration_group *group = &calibration->groups[i];
        if (group->n_lines == 0) {
            continue;
        }
        report_tree_begin(tree, NULL, SP_JSON_OBJECT);
        report_tree_string(tree, "group", group->name);
        report_tree_number(tree, "lines", group->n_lines);
        put_errors(tree, "before", &group->before);
        put_errors(tree, "after", &group->after);
        put_share(tree, "held_out_frac", group->held_out);
        report_tree_string(tree, "worst_key", group->after.n > 0 ? group->worst_key : NULL);
        report_tree_number(tree, "unpriced", group->n_unpriced);
        report_tree_string(tree, "unpriced_reason", group->n_unpriced > 0 ? group->unpriced : NULL);
        report_tree_end(tree);
    }
    report_tree_end(tree);
}

/* Units as keys have them elsewhere. */
static const char *unit_of(enum sp_dimension dimension)
{
    return dimension == SP_SECONDS       ? "s"
           : dimension == SP_BYTES_PER_S ? "bytes_per_s"
           : dimension == SP_FLOP_PER_S  ? "flop_per_s"
           : dimension == SP_FRACTION    ? "frac"
           : dimension == SP_WATT        ? "w"
           : dimension == SP_HERTZ       ? "hz"
                                         : "";
}

static void put_parameters(struct report_tree *tree, const struct calibration_curve *curve)
{
    report_tree_begin(tree, "parameters", SP_JSON_ARRAY);
    for (int i = 0; i < curve->n_parameters; i++) {
        const struct calibration_parameter *parameter = &curve->parameters[i];
        report_tree_begin(tree, NULL, SP_JSON_OBJECT);
        report_tree_string(tree, "name", parameter->name);
        report_tree_string(tree, "unit", unit_of(parameter->dimension));
        if (parameter->is_known) {
            report_tree_number(tree, "value", parameter->value);
            report_tree_number(tree, "low", parameter->low);
            report_tree_number(tree, "high", parameter->high);
        } else {
            report_tree_null(tree, "value");
            report_tree_null(tree, "low");
            report_tree_null(tree, "high");
        }
        report_tree_end(tree);
    }
    report_tree_end(tree);
}

static void put_curves(struct report_tree *tree, const struct calibration *calibration)
{
    report_tree_begin(tree, "curves", SP_JSON_ARRAY);
    for (int64_t i = 0; i < calibration->n_curves; i++) {
        const struct calibration_curve *curve = &calibration->curves[i];
        report_tree_begin(tree, NULL, SP_JSON_OBJECT);
        report_tree_string(tree, "group", measurement_group_names[curve->group]);
        report_tree_string(tree, "curve", curve->what);
        report_tree_string(tree, "model", curve->model);
        report_tree_string(tree, "refused", curve->reason);
        report_tree_number(tree, "points", curve->n_points);
        report_tree_number(tree, "outliers", curve->n_outliers);
        put_share(tree, "spread_frac", curve->model == NULL ? -1 : curve->spread);
        put_share(tree, "held_out_frac", curve->held_out);
        put_parameters(tree, curve);
        report_tree_end(tree);
    }
    report_tree_end(tree);
}

const struct sp_json *report_calibration_tree(struct sp_arena *arena, const struct report_calibration *report)
{
    struct report_tree tree;
    report_tree_open(&tree, arena);
    report_tree_string(&tree, "schema", "seqplan.calibrate/1");
    report_tree_string(&tree, "hardware", report->calibration->before->name);
    report_tree_string(&tree, "source", report->calibration->source);
    report_tree_string(&tree, "file", report->path);
    put_groups(&tree, report->calibration);
    put_curves(&tree, report->calibration);
    report_tree_texts(&tree, "left_out", &report->calibration->remarks);
    report_tree_texts(&tree, "advice", &report->calibration->advice);
    return report_tree_close(&tree);
}

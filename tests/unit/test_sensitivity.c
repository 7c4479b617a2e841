#include "search/search.h"
#include "support/questions.h"
#include "support/support.h"

#include <math.h>
#include <string.h>

static int open_arena(void **state)
{
    *state = sp_arena_open();
    return 0;
}

static int close_arena(void **state)
{
    sp_arena_close(*state);
    return 0;
}

static const char odd_base[] = "model=llama-3.1-8b hardware=dgx-h100 gpus=48 seq=96K tp=2 sp=6 zero=3";

/* Every FLOP for nothing and memory of 1 GB/s: all that is left is bytes over that rate, so 10 % more of it divides the
 * step by 1.1. Latencies and the host's own times are far below 1e-6 of such a step. */
static void step_of_memory_traffic_alone_follows_its_bandwidth(void **state)
{
    struct question question;
    struct sensitivity sensitivity;
    question_from(*state,
                  "model=llama-2-7b hardware=dgx-h100 gpus=1 seq=3000 batch=1 set=model.num_hidden_layers=3 "
                  "set=gpu.hbm_bandwidth=1GB/s set=gpu.peak_bf16=1000000TFLOP/s",
                  &question);
    sensitivity_of_layout(&question, &sensitivity);
    const struct sensitivity_row *row = &sensitivity.rows[SENSITIVITY_HBM_BANDWIDTH];
    assert_close(row->value, 1e9, 0);
    assert_close(row->up.step_time_frac, 1 / 1.1 - 1, 1e-3);
    assert_close(row->down.step_time_frac, 1 / 0.9 - 1, 1e-3);
    assert_true(fabs(sensitivity.rows[SENSITIVITY_NETWORK].up.step_time_frac) < 1e-12);
}

static void step_of_products_alone_follows_the_peaks(void **state)
{
    struct question question;
    struct sensitivity sensitivity;
    question_from(*state,
                  "model=llama-2-7b hardware=dgx-h100 gpus=1 seq=3000 batch=1 set=model.num_hidden_layers=3 "
                  "set=gpu.hbm_bandwidth=100000GB/s set=gpu.peak_bf16=1TFLOP/s",
                  &question);
    sensitivity_of_layout(&question, &sensitivity);
    assert_close(sensitivity.rows[SENSITIVITY_FLOP_RATE].up.step_time_frac, 1 / 1.1 - 1, 1e-3);
    assert_close(sensitivity.rows[SENSITIVITY_FLOP_RATE].down.step_time_frac, 1 / 0.9 - 1, 1e-3);
}

struct figures {
    int n;
    double values[64];
    char paths[64][64];
    enum sp_dimension dimensions[64];
};

static void collect_figure(const char *path, const struct sp_field *field, const void *value, void *user)
{
    struct figures *figures = user;
    if (field->type == SP_FIELD_FIGURE) {
        assert_true(figures->n < (int)SP_COUNT_OF(figures->values));
        figures->values[figures->n] = ((const struct sp_figure *)value)->value;
        figures->dimensions[figures->n] = field->dimension;
        (void)snprintf(figures->paths[figures->n++], sizeof(figures->paths[0]), "%s", path);
    }
}

static struct figures figures_of(const struct hardware_spec *hardware)
{
    struct figures figures = {.n = 0};
    sp_fields_visit(hardware_fields, hardware, collect_figure, &figures);
    return figures;
}

static double figure_at(const struct figures *figures, const char *path, enum sp_dimension *dimension)
{
    for (int i = 0; i < figures->n; i++) {
        if (strcmp(figures->paths[i], path) == 0) {
            *dimension = figures->dimensions[i];
            return figures->values[i];
        }
    }
    fail_msg("no figure %s", path);
    return 0;
}

/* What --set PATH=VALUE of every path gives, bit for bit: every figure of the machine, and the step. */
static void scaling_is_what_set_does(void **state)
{
    struct question base;
    question_from(*state, odd_base, &base);
    const struct figures before = figures_of(&base.hardware);
    for (int f = 0; f < N_SENSITIVITIES; f++) {
        enum sensitivity_figure figure = (enum sensitivity_figure)f;
        struct question scaled = base;
        struct question set;
        const char *settings = odd_base;
        sensitivity_scale(&scaled.hardware, figure, 1.375);
        for (int i = 0; sensitivity_path(figure, i) != NULL; i++) {
            enum sp_dimension dimension = SP_PURE;
            double value = figure_at(&before, sensitivity_path(figure, i), &dimension);
            settings = sp_format(*state, "%s set=%s=%s", settings, sensitivity_path(figure, i),
                                 sp_quantity_exact(*state, value * 1.375, dimension));
        }
        question_from(*state, settings, &set);
        const struct figures by_scale = figures_of(&scaled.hardware);
        const struct figures by_set = figures_of(&set.hardware);
        for (int i = 0; i < by_set.n; i++) {
            assert_close(by_scale.values[i], by_set.values[i], 0);
        }
        struct estimate of_scale;
        struct estimate of_set;
        step_estimate(&scaled, &of_scale);
        step_estimate(&set, &of_set);
        assert_close(of_scale.step_time_s, of_set.step_time_s, 0);
        assert_int_equal(of_scale.fits, of_set.fits);
    }
}

/* Each path is what its figure is about. */
static void latencies_are_those_of_links_and_kernels(void **state)
{
    (void)state;
    static const char *const paths[] = {"network.latency", "intra.latency", "gpu.kernel_latency", "gpu.launch_latency"};
    for (int i = 0; i < (int)SP_COUNT_OF(paths); i++) {
        assert_string_equal(sensitivity_path(SENSITIVITY_LATENCY, i), paths[i]);
    }
    assert_null(sensitivity_path(SENSITIVITY_LATENCY, (int)SP_COUNT_OF(paths)));
    assert_null(sensitivity_path(SENSITIVITY_INTRA, 1));
}

static void capacity_changes_what_fits_and_no_time(void **state)
{
    struct question question;
    struct estimate estimate;
    struct sensitivity sensitivity;
    question_from(*state, odd_base, &question);
    step_estimate(&question, &estimate);
    question.hardware.gpu.hbm_capacity.value = 1.05 * estimate.peak_bytes;
    sensitivity_of_layout(&question, &sensitivity);
    const struct sensitivity_row *row = &sensitivity.rows[SENSITIVITY_HBM_CAPACITY];
    assert_close(row->up.step_time_frac, 0, 0);
    assert_close(row->down.step_time_frac, 0, 0);
    assert_true(row->up.fits);
    assert_false(row->down.fits);
}

/* ---- of a plan -------------------------------------------------------------------------------------------------- */

/* Two layouts of 48 GPUs: one of little tp whose ring leaves the node, one that fills the node with tp. */
static struct plan two_layouts(struct sp_arena *arena, const char *const *settings, struct plan_question *asked)
{
    struct plan plan = {.n_kept = 2};
    struct plan_layout *kept = sp_arena_array(arena, 2, sizeof(*kept));
    for (int i = 0; i < 2; i++) {
        struct question question;
        struct estimate estimate;
        question_from(arena, settings[i], &question);
        step_estimate(&question, &estimate);
        kept[i] = (struct plan_layout){.layout = question.layout,
                                       .gpus = question.run.gpus,
                                       .step_time_s = estimate.step_time_s,
                                       .peak_bytes = estimate.peak_bytes,
                                       .objective = estimate.step_time_s,
                                       .index = (uint64_t)i};
        assert_true(estimate.fits);
    }
    plan_question_init(asked, arena);
    asked->request.model = "llama-3.1-8b";
    asked->request.hardware = "dgx-h100";
    asked->request.gpus = (struct sp_option_count){.is_given = true, .value = 48};
    asked->request.seq = (struct sp_option_count){.is_given = true, .value = 98304};
    asked->request.global_batch = "96";
    plan.kept = kept;
    return plan;
}

static const char *const rivals[] = {
    "model=llama-3.1-8b hardware=dgx-h100 gpus=48 seq=96K batch=96 tp=2 sp=6 dp=4 zero=3",
    "model=llama-3.1-8b hardware=dgx-h100 gpus=48 seq=96K batch=96 tp=8 sp=3 dp=2 zero=3",
};

static double time_of(struct sp_arena *arena, int rival, enum sensitivity_figure figure, double factor)
{
    struct question question;
    struct estimate estimate;
    question_from(arena, rivals[rival], &question);
    sensitivity_scale(&question.hardware, figure, factor);
    step_estimate(&question, &estimate);
    return estimate.step_time_s;
}

static void crossing_stands_where_the_times_cross(void **state)
{
    struct plan_question asked;
    struct sensitivity sensitivity;
    struct sp_error err = {0};
    struct plan plan = two_layouts(*state, rivals, &asked);
    assert_true(sensitivity_of_plan(&asked, &plan, *state, &sensitivity, &err));
    int today = sensitivity.winner;
    assert_int_equal(today,
                     time_of(*state, 0, SENSITIVITY_INTRA, 1) < time_of(*state, 1, SENSITIVITY_INTRA, 1) ? 0 : 1);
    int n_found = 0;
    for (int f = 0; f < (int)SENSITIVITY_HBM_CAPACITY; f++) {
        const struct sensitivity_row *row = &sensitivity.rows[f];
        const struct sensitivity_crossing *crossings[] = {&row->above, &row->below};
        for (int i = 0; i < 2; i++) {
            const struct sensitivity_crossing *crossing = crossings[i];
            if (!crossing->is_found || crossing->winner < 0) {
                continue;
            }
            double back = i == 0 ? 0.999 : 1.001;
            enum sensitivity_figure figure = (enum sensitivity_figure)f;
            assert_int_equal(crossing->winner, 1 - today);
            assert_true(time_of(*state, 1 - today, figure, crossing->factor) <
                        time_of(*state, today, figure, crossing->factor));
            assert_true(time_of(*state, 1 - today, figure, crossing->factor * back) >
                        time_of(*state, today, figure, crossing->factor * back));
            assert_close(crossing->value, crossing->factor * row->value, 1e-12);
            n_found++;
        }
    }
    assert_true(n_found > 0);
}

static void less_memory_leaves_the_layout_with_the_smaller_peak(void **state)
{
    struct plan_question asked;
    struct sensitivity sensitivity;
    struct sp_error err = {0};
    struct plan plan = two_layouts(*state, rivals, &asked);
    assert_true(sensitivity_of_plan(&asked, &plan, *state, &sensitivity, &err));
    int today = sensitivity.winner;
    const struct sensitivity_row *row = &sensitivity.rows[SENSITIVITY_HBM_CAPACITY];
    bool is_smaller = plan.kept[1 - today].peak_bytes < plan.kept[today].peak_bytes;
    assert_true(row->below.is_found);
    assert_int_equal(row->below.winner, is_smaller ? 1 - today : -1);
    assert_true(row->below.value < plan.kept[today].peak_bytes);
    assert_true(row->below.value > 0.998 * plan.kept[today].peak_bytes);
    assert_false(row->above.is_found);
    assert_int_equal(row->up.winner, today);
    assert_close(row->up.step_time_frac, 0, 0);
}

static void plan_without_layouts_has_no_winner(void **state)
{
    struct plan_question asked;
    struct sensitivity sensitivity;
    struct sp_error err = {0};
    struct plan plan = two_layouts(*state, rivals, &asked);
    plan.n_kept = 0;
    assert_true(sensitivity_of_plan(&asked, &plan, *state, &sensitivity, &err));
    assert_int_equal(sensitivity.winner, -1);
}

static void constraints_of_the_question_hold(void **state)
{
    struct plan_question asked;
    struct sensitivity sensitivity;
    struct sp_error err = {0};
    struct plan plan = two_layouts(*state, rivals, &asked);
    int larger = plan.kept[0].peak_bytes > plan.kept[1].peak_bytes ? 0 : 1;
    asked.max_memory_bytes = plan.kept[larger].peak_bytes - 1;
    assert_true(sensitivity_of_plan(&asked, &plan, *state, &sensitivity, &err));
    assert_int_equal(sensitivity.winner, 1 - larger);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(step_of_memory_traffic_alone_follows_its_bandwidth, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(step_of_products_alone_follows_the_peaks, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(scaling_is_what_set_does, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(latencies_are_those_of_links_and_kernels, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(capacity_changes_what_fits_and_no_time, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(crossing_stands_where_the_times_cross, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(less_memory_leaves_the_layout_with_the_smaller_peak, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(plan_without_layouts_has_no_winner, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(constraints_of_the_question_hold, open_arena, close_arena),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

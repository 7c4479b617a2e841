/* A simulated step in every format, from a result filled in by hand: no figure here comes from a simulation. */
#include "report/report.h"
#include "support/questions.h"
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

static const double gib = 0x1p30;

/* Three stages; the last of them is slow. */
struct sample {
    struct sp_arena *arena;
    struct question question;
    struct estimate estimate;
    struct sim_rank ranks[3];
    struct sim_resource resources[4];
    struct sim_result result, undisturbed;
    struct sim_slow_gpu slow_gpu;
    struct sim_slow_link slow_link;
    struct sim_options options;
    struct report_simulation simulation;
};

static void fill_result(struct sample *sample)
{
    sample->ranks[0] = (struct sim_rank){.rank = 0, .count = 8, .busy_s = 6.0, .peak_bytes = 20 * gib};
    sample->ranks[1] = (struct sim_rank){.rank = 8, .count = 7, .stage = 1, .busy_s = 7.0, .peak_bytes = 19 * gib};
    sample->ranks[2] = (struct sim_rank){.rank = 13, .count = 1, .stage = 1, .busy_s = 8.0, .peak_bytes = 19 * gib};
    for (int i = 0; i < 3; i++) {
        double *waits = sample->ranks[i].waits_s;
        waits[SIM_WAIT_SP] = 1.25;
        waits[SIM_WAIT_PEER] = 0.5;
        waits[SIM_WAIT_STAGE] = 13.0 - sample->ranks[i].busy_s - 1.75;
    }
    sample->resources[0] = (struct sim_resource){.name = "gpu 0 compute", .count = 8, .busy_frac = 6.0 / 13.0};
    sample->resources[1] = (struct sim_resource){
        .name = "node 0 nic 3 out", .count = 2, .is_link = true, .busy_frac = 0.9, .capacity_bytes_per_s = 50e9};
    sample->resources[2] = (struct sim_resource){.name = "node 1 nic 5 out",
                                                 .count = 1,
                                                 .is_link = true,
                                                 .busy_frac = 0.5,
                                                 .bytes = 123e9,
                                                 .capacity_bytes_per_s = 25e9,
                                                 .contended_frac = 0.37,
                                                 .axes = 1U << AXIS_TP | 1U << AXIS_CP};
    sample->resources[3] = (struct sim_resource){
        .name = "gpu 5 nvlink in", .count = 16, .is_link = true, .busy_frac = 0.1, .capacity_bytes_per_s = 370e9};
    sample->result = (struct sim_result){
        .step_time_s = 13.0,
        .events = 61007,
        .elapsed_s = 0.25,
        .n_classes = 3,
        .n_ranks = 3,
        .ranks = sample->ranks,
        .n_resources = 4,
        .resources = sample->resources,
        .n_critical = 2,
        .critical = {{TIME_ATTENTION, 11.5, 0.0}, {TIME_SP_EXPOSED, 1.5, 0.75}},
        .delays = {[AXIS_CP] = {.transfer_s = 4.0, .delayed_s = 0.5, .waited_s = 0.125}},
        .peak = {.rank = 8,
                 .stage = 1,
                 .time_s = 3.5,
                 .allocated_bytes = 20.76 * gib,
                 .peak_bytes = 23.0 * gib,
                 .moment = MOMENT_RECOMPUTED,
                 .layer = 17,
                 .micro_batch = 6,
                 .micro_batches_held = 1.5,
                 .state_bytes = 5.0 * gib,
                 .saved_bytes = 15.76 * gib},
    };
}

static int open_sample(void **state)
{
    struct sample *sample = calloc(1, sizeof(*sample));
    assert_non_null(sample);
    sample->arena = sp_arena_open();
    question_from(sample->arena,
                  "model=llama-3.1-8b hardware=dgx-h100 gpus=16 seq=96K tp=2 sp=4 pp=2 batch=6 framework=megatron",
                  &sample->question);
    sample->estimate = (struct estimate){
        .fits = true,
        .step_time_s = 12.5,
        .tokens_per_s_per_gpu = 1000.0,
        .mfu_frac = 0.4,
        .bound = "attention",
        .peak_bytes = 23.0 * gib,
        .capacity_bytes = 79.6 * gib,
        .headroom_bytes = 56.6 * gib,
        .time_s = {[TIME_ATTENTION] = 6.5, [TIME_GEMM] = 1.25, [TIME_SP_EXPOSED] = 0.5, [TIME_BUBBLE] = 4.25},
    };
    fill_result(sample);
    sample->options = (struct sim_options){.chunks = 1, .seed = 6};
    sample->simulation = (struct report_simulation){
        .answer = {.question = &sample->question, .estimate = &sample->estimate, .data_hash = "0123"},
        .result = &sample->result,
        .options = &sample->options,
    };
    *state = sample;
    return 0;
}

static int close_sample(void **state)
{
    struct sample *sample = *state;
    sp_arena_close(sample->arena);
    free(sample);
    return 0;
}

static char *print_as(struct sample *sample, enum report_format format)
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    assert_non_null(file);
    const struct report_style style = {.file = file, .format = format, .version = "1.2.3"};
    report_simulation(&style, sample->arena, &sample->simulation);
    assert_int_equal(fclose(file), 0);
    return text;
}

static void assert_contains(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("no '%s' in:\n%s", part, text);
    }
}

static const struct sp_json *tree_of(struct sample *sample)
{
    struct sp_error err = {.kind = SP_ERROR_NONE};
    char *text = print_as(sample, REPORT_JSON);
    const struct sp_json *tree = sp_json_parse(sample->arena, "answer", text, &err);
    free(text);
    assert_non_null(tree);
    return tree;
}

static double number_at(const struct sp_json *tree, const char *path)
{
    const struct sp_json *value = report_tree_at(tree, path);
    if (value == NULL || value->type != SP_JSON_NUMBER) {
        fail_msg("no number at %s", path);
    }
    return value->number;
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

static void keys_of_the_contract(void **state)
{
    struct sample *sample = *state;
    sample->simulation.spans_file = "spans.json.gz";
    const struct sp_json *tree = tree_of(sample);
    assert_string_equal(report_tree_at(tree, "schema")->string, "seqplan.simulate/1");
    assert_close(number_at(tree, "step_time_s"), 13.0, 0);
    assert_close(number_at(tree, "estimate_step_time_s"), 12.5, 0);
    assert_close(number_at(tree, "events"), 61007, 0);
    assert_close(number_at(tree, "elapsed_s"), 0.25, 0);
    assert_close(number_at(tree, "events_per_s"), 244028, 0);
    assert_close(number_at(tree, "peak_bytes"), 23.0 * gib, 0);
    assert_string_equal(report_tree_at(tree, "spans_file")->string, "spans.json.gz");
    const struct sp_json *resource = report_tree_at(tree, "resources")->first;
    assert_string_equal(sp_json_member(resource, "name")->string, "gpu 0 compute");
    assert_close(number_at(resource, "busy_frac"), 6.0 / 13.0, 1e-15);
    assert_int_equal(report_tree_at(tree, "resources")->count, 4);
}

static void waits_peak_and_axes_by_name(void **state)
{
    struct sample *sample = *state;
    const struct sp_json *tree = tree_of(sample);
    const struct sp_json *slow = report_tree_at(tree, "ranks")->first->next->next;
    assert_close(number_at(slow, "stage"), 2, 0); /* from 1 */
    assert_close(number_at(slow, "waits_s.sp"), 1.25, 0);
    assert_close(number_at(slow, "waits_s.stage"), 3.25, 0);
    assert_close(number_at(tree, "delays.sp.delayed_s"), 0.5, 0);
    assert_close(number_at(tree, "delays.tp.delayed_s"), 0.0, 0);
    assert_close(number_at(tree, "peak.layer"), 17, 0);
    assert_string_equal(report_tree_at(tree, "peak.moment")->string, "layer rebuilt");
    const struct sp_json *link = report_tree_at(tree, "resources")->first->next->next;
    assert_string_equal(sp_json_member(link, "axes")->first->string, "tp");
    assert_string_equal(sp_json_member(link, "axes")->first->next->string, "sp");
    assert_int_equal(report_tree_at(tree, "disturbed")->type, SP_JSON_NULL);
    assert_int_equal(report_tree_at(tree, "spans_file")->type, SP_JSON_NULL);
}

static void rates_are_of_the_simulated_step(void **state)
{
    struct sample *sample = *state;
    const struct sp_json *tree = tree_of(sample);
    assert_close(number_at(tree, "tokens_per_s_per_gpu"), 1000.0 * 12.5 / 13.0, 1e-15);
    assert_close(number_at(tree, "mfu_frac"), 0.4 * 12.5 / 13.0, 1e-15);
    assert_close(sample->estimate.mfu_frac, 0.4, 0);
}

static void row_says_nothing_of_the_clock(void **state)
{
    struct sample *sample = *state;
    sample->simulation.is_row = true;
    const struct sp_json *tree = tree_of(sample);
    assert_null(report_tree_at(tree, "elapsed_s"));
    assert_null(report_tree_at(tree, "events_per_s"));
    assert_close(number_at(tree, "events"), 61007, 0);
}

static void peak_of_no_layer_is_null(void **state)
{
    struct sample *sample = *state;
    sample->result.peak.layer = -1;
    sample->result.peak.micro_batch = -1;
    const struct sp_json *tree = tree_of(sample);
    assert_int_equal(report_tree_at(tree, "peak.layer")->type, SP_JSON_NULL);
    assert_int_equal(report_tree_at(tree, "peak.micro_batch")->type, SP_JSON_NULL);
    const char *text = report_peak_text(sample->arena, &sample->result.peak, true);
    assert_string_equal(
        text, "stage 2, rank 8, 3.50 s into the step: layer rebuilt; activations of 1.5 micro-batches are held");
}

/* ---- words ------------------------------------------------------------------------------------------------------- */

/* The busiest rank: kernels 8.00 instead of 7.75, sp 1.25 instead of 0.50, late ranks 0.50 instead of 0, bubble 1 less. */
static void causes_are_the_largest_differences(void **state)
{
    struct sample *sample = *state;
    assert_string_equal(report_simulation_causes(sample->arena, &sample->simulation),
                        "sp transfers +750 ms (shared links slow them by 500 ms), waiting for late ranks of a group "
                        "+500 ms, kernels +250 ms");
}

static void faster_has_causes_of_the_other_sign(void **state)
{
    struct sample *sample = *state;
    sample->estimate.step_time_s = 14.0;
    sample->estimate.time_s[TIME_BUBBLE] = 5.75;
    assert_string_equal(report_simulation_causes(sample->arena, &sample->simulation),
                        "waiting for other stages -2.50 s");
}

static void same_step_has_no_cause(void **state)
{
    struct sample *sample = *state;
    sample->estimate.step_time_s = 13.0 * 1.0004;
    assert_string_equal(report_simulation_causes(sample->arena, &sample->simulation), "");
}

static void disturb(struct sample *sample)
{
    sample->slow_link = (struct sim_slow_link){.links = "nic:1.5", .share = 0.5};
    sample->options.slow_links = &sample->slow_link;
    sample->options.n_slow_links = 1;
    sample->undisturbed = sample->result;
    sample->undisturbed.step_time_s = 11.57;
    sample->simulation.undisturbed = &sample->undisturbed;
}

static void one_slow_link_has_a_price(void **state)
{
    struct sample *sample = *state;
    assert_null(report_disturbance_text(sample->arena, &sample->simulation));
    disturb(sample);
    assert_string_equal(report_disturbance_text(sample->arena, &sample->simulation),
                        "link nic:1.5 at 50 % of its rate costs 12.4 %: 13.0 s instead of 11.6 s");
    assert_close(number_at(tree_of(sample), "disturbed.cost_frac"), 13.0 / 11.57 - 1.0, 1e-15);
    sample->undisturbed.step_time_s = 13.0;
    assert_string_equal(report_disturbance_text(sample->arena, &sample->simulation),
                        "link nic:1.5 at 50 % of its rate costs nothing: 13.0 s with and without");
}

static void several_disturbances_are_one_sentence(void **state)
{
    struct sample *sample = *state;
    disturb(sample);
    sample->slow_link.period_s = 0.01;
    sample->slow_link.slow_s = 0.002;
    sample->slow_gpu = (struct sim_slow_gpu){.gpu = 13, .speed = 0.8};
    sample->options.slow_gpus = &sample->slow_gpu;
    sample->options.n_slow_gpus = 1;
    sample->options.jitter_frac = 0.025;
    sample->options.background_frac = 0.3;
    const char *text = report_disturbance_text(sample->arena, &sample->simulation);
    assert_contains(text, "GPU 13 at 80 % of its speed, link nic:1.5 at 50 % of its rate for 2.00 ms in every 10.0 ms, "
                          "kernels that take 2.5 % longer on average (jitter, seed 6) and others on 30 % of the "
                          "network together cost 12.4 %");
    assert_int_equal(report_tree_at(tree_of(sample), "disturbed.options")->count, 4);
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */

static void assert_within_100(const char *text)
{
    for (const char *line = text; *line != '\0';) {
        size_t length = strcspn(line, "\n");
        char *own = strndup(line, length);
        assert_non_null(own);
        if (report_text_width(own) > REPORT_COLUMNS || (length > 0 && own[length - 1] == ' ')) {
            fail_msg("too wide, or a blank at its end: '%s'", own);
        }
        free(own);
        line += length + (line[length] == '\n' ? 1 : 0);
    }
}

static void table_is_one_screen_with_the_answer_first(void **state)
{
    struct sample *sample = *state;
    disturb(sample);
    char *text = print_as(sample, REPORT_TABLE);
    assert_within_100(text);
    assert_contains(text, "\n  step     13.0 s             estimate 12.5 s (+4.0 %)   962 tokens/s/GPU");
    assert_contains(text, "\n  memory   23.0 of 79.6 GiB   estimate 23.0 GiB");
    assert_contains(text, "\n  cost     link nic:1.5 at 50 % of its rate costs 12.4 %");
    assert_contains(text, "\n  why      sp transfers +750 ms");
    assert_contains(text, "\n  rank 13       s  estimate   critical path     s   %  delayed   at the peak   GiB\n");
    assert_contains(text, "\n  GPU time in %  alike  stage  busy   sp  late ranks  stages   GiB\n");
    free(text);
}

/* Where transfers were in each other's way comes first, although another link was busier. */
static void contended_links_come_first(void **state)
{
    struct sample *sample = *state;
    char *text = print_as(sample, REPORT_TABLE);
    const char *contended = strstr(text, "node 1 nic 5 out");
    const char *busier = strstr(text, "node 0 nic 3 out");
    assert_non_null(contended);
    assert_non_null(busier);
    assert_true(contended < busier);
    assert_contains(text, "node 1 nic 5 out      1  25.0  123    50.0         37.0  tp + sp\n");
    free(text);
}

/* Twenty kinds of ranks: the four that work most, the four that work least, and a line that says so. */
static void many_kinds_of_ranks_are_cut(void **state)
{
    struct sample *sample = *state;
    enum { MANY = 20 };
    struct sim_rank *ranks = sp_arena_array(sample->arena, MANY, sizeof(*ranks));
    for (int i = 0; i < MANY; i++) {
        ranks[i] = (struct sim_rank){.rank = 3 * i, .count = 1, .busy_s = 5.0 + 0.125 * (i * 7 % MANY)};
    }
    sample->result.ranks = ranks;
    sample->result.n_ranks = MANY;
    int n_shown = 0;
    struct report_grid grid = report_ranks_grid(sample->arena, &sample->result, &n_shown);
    assert_int_equal(n_shown, 8);
    assert_int_equal(grid.n_rows, 8);
    const char **lines = report_grid_lines(&grid);
    assert_contains(lines[1], "rank 0 ");  /* works least */
    assert_contains(lines[4], "rank 24 "); /* the fourth of those that work most */
    assert_contains(lines[8], "rank 51 ");
    char *text = print_as(sample, REPORT_TABLE);
    assert_contains(text, "8 of 20 kinds of GPUs, those that work most and least; --format json has all");
    assert_within_100(text);
    free(text);
}

static void markdown_and_csv(void **state)
{
    struct sample *sample = *state;
    disturb(sample);
    char *text = print_as(sample, REPORT_MARKDOWN);
    assert_contains(text, "- **step 13.0 s**, estimate 12.5 s (+4.0 %)");
    assert_contains(text, "- cost: link nic:1.5 at 50 % of its rate costs 12.4 %");
    assert_contains(text, "| critical path | s | % | delayed |\n");
    free(text);
    text = print_as(sample, REPORT_CSV);
    assert_contains(text, ",step_time_s,estimate_step_time_s,");
    assert_contains(text, ",resources.2.contended_frac,");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(keys_of_the_contract, open_sample, close_sample),
        cmocka_unit_test_setup_teardown(waits_peak_and_axes_by_name, open_sample, close_sample),
        cmocka_unit_test_setup_teardown(rates_are_of_the_simulated_step, open_sample, close_sample),
        cmocka_unit_test_setup_teardown(row_says_nothing_of_the_clock, open_sample, close_sample),
        cmocka_unit_test_setup_teardown(peak_of_no_layer_is_null, open_sample, close_sample),
        cmocka_unit_test_setup_teardown(causes_are_the_largest_differences, open_sample, close_sample),
        cmocka_unit_test_setup_teardown(faster_has_causes_of_the_other_sign, open_sample, close_sample),
        cmocka_unit_test_setup_teardown(same_step_has_no_cause, open_sample, close_sample),
        cmocka_unit_test_setup_teardown(one_slow_link_has_a_price, open_sample, close_sample),
        cmocka_unit_test_setup_teardown(several_disturbances_are_one_sentence, open_sample, close_sample),
        cmocka_unit_test_setup_teardown(table_is_one_screen_with_the_answer_first, open_sample, close_sample),
        cmocka_unit_test_setup_teardown(contended_links_come_first, open_sample, close_sample),
        cmocka_unit_test_setup_teardown(many_kinds_of_ranks_are_cut, open_sample, close_sample),
        cmocka_unit_test_setup_teardown(markdown_and_csv, open_sample, close_sample),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

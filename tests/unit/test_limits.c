#include "search/probe.h"
#include "support/questions.h"
#include "support/support.h"

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

static struct sp_option_count count(int64_t value)
{
    return (struct sp_option_count){.is_given = true, .value = value};
}

static struct request request_of(struct sp_arena *arena, const char *model, int64_t gpus)
{
    struct request request;
    request_init(&request, arena);
    request.model = model;
    request.hardware = "dgx-h100";
    request.zero = 3;
    if (gpus > 0) {
        request.gpus = count(gpus);
    }
    return request;
}

static struct limits limits_from(struct sp_arena *arena, const struct request *request)
{
    struct limits limits;
    struct sp_error err = {0};
    if (!limits_of_layout(request, arena, &limits, &err)) {
        fail_msg("%s", err.text);
    }
    return limits;
}

/* Whether estimate says that a request fits; *is_legal: that it prices it at all. */
static bool fits_at(struct sp_arena *arena, const struct request *request, bool *is_legal)
{
    struct question *question = sp_arena_alloc(arena, sizeof(*question));
    struct estimate *estimate = sp_arena_alloc(arena, sizeof(*estimate));
    struct sp_error err = {0};
    *is_legal = question_resolve(request, arena, question, &err) && step_check(question, &err);
    if (!*is_legal) {
        return false;
    }
    step_estimate(question, estimate);
    return estimate->fits;
}

static bool fits_length(struct sp_arena *arena, struct request request, int64_t seq)
{
    bool is_legal = false;
    request.seq = count(seq);
    bool fits = fits_at(arena, &request, &is_legal);
    assert_true(is_legal);
    return fits;
}

/* ---- of a layout ------------------------------------------------------------------------------------------------ */

/* Odd degrees, odd depths, every kind of offload: the limit fits by estimate's own defaults, one unit more does not. */
static void longest_sequence_fits_and_one_unit_more_does_not(void **state)
{
    const struct {
        const char *model, *setting, *offload, *recompute;
        int64_t gpus, tp, sp, pp;
        int method;
    } rows[] = {
        {"llama-2-7b", "model.num_hidden_layers=33", NULL, NULL, 6, 1, 6, 1, METHOD_ZIGZAG},
        {"llama-2-7b", "model.num_hidden_layers=31", NULL, "none", 7, 1, 7, 1, METHOD_RING},
        {"llama-3.1-8b", "model.num_hidden_layers=33", NULL, "selective", 48, 2, 6, 1, METHOD_ALLGATHER},
        {"llama-3.1-70b", "model.num_hidden_layers=81", "optimizer", NULL, 48, 4, 2, 3, METHOD_ZIGZAG},
        {"qwen3-8b", "model.num_hidden_layers=37", "activations", NULL, 24, 1, 6, 1, METHOD_ZIGZAG},
        {"mixtral-8x7b", "model.num_hidden_layers=27", NULL, NULL, 24, 1, 3, 1, METHOD_ZIGZAG},
    };
    for (size_t i = 0; i < SP_COUNT_OF(rows); i++) {
        struct request request = request_of(*state, rows[i].model, rows[i].gpus);
        sp_texts_add(&request.set, "%s", rows[i].setting);
        request.tp = count(rows[i].tp);
        request.sp = count(rows[i].sp);
        request.pp = count(rows[i].pp);
        request.method = rows[i].method;
        request.offload = rows[i].offload;
        request.recompute = rows[i].recompute;
        request.zero = rows[i].pp > 1 ? 1 : 3;
        struct limits limits = limits_from(*state, &request);
        const struct limit *limit = &limits.items[LIMIT_SEQ];
        assert_true(limit->is_found);
        assert_int_equal(limit->value % limit->unit, 0);
        assert_int_equal(limit->unit % (2 * rows[i].sp * rows[i].tp), 0);
        assert_true(limit->unit >= 1024 && limit->unit < 1024 + 2 * rows[i].sp * rows[i].tp);
        assert_true(fits_length(*state, request, limit->value));
        assert_false(fits_length(*state, request, limit->value + limit->unit));
        assert_true(limit->estimate->fits);
        assert_int_equal(limit->question->run.seq, limit->value);
    }
}

static void largest_micro_batch_fits_and_one_more_does_not(void **state)
{
    struct request request = request_of(*state, "llama-2-7b", 6);
    bool is_legal = false;
    request.sp = count(3);
    request.seq = count(30000);
    struct limits limits = limits_from(*state, &request);
    int64_t most = limits.items[LIMIT_MICRO_BATCH].value;
    assert_true(limits.items[LIMIT_MICRO_BATCH].is_found && most > 1);
    request.micro_batch = count(most);
    assert_true(fits_at(*state, &request, &is_legal));
    request.micro_batch = count(most + 1);
    assert_false(fits_at(*state, &request, &is_legal));
    assert_true(is_legal);
}

/* 15 sequences over dp 1: 1, 3, 5 and 15 divide them. */
static void micro_batches_divide_a_batch_that_is_given(void **state)
{
    struct request request = request_of(*state, "llama-2-7b", 6);
    request.sp = count(6);
    request.seq = count(120000);
    struct limits free = limits_from(*state, &request);
    request.global_batch = "15";
    struct limits limits = limits_from(*state, &request);
    const struct limit *limit = &limits.items[LIMIT_MICRO_BATCH];
    int64_t most = free.items[LIMIT_MICRO_BATCH].value;
    int64_t expected = most >= 15 ? 15 : most >= 5 ? 5 : most >= 3 ? 3 : 1;
    assert_int_equal(limit->value, expected);
    assert_false(limits.is_batch_assumed);
    assert_true(free.is_batch_assumed);
}

static void fewest_gpus_fit_and_fewer_do_not(void **state)
{
    struct request request = request_of(*state, "llama-2-7b", 0);
    bool is_legal = false;
    request.sp = count(3);
    request.seq = count(60000);
    struct limits limits = limits_from(*state, &request);
    const struct limit *limit = &limits.items[LIMIT_GPUS];
    assert_true(limit->is_found);
    assert_int_equal(limit->value % 3, 0);
    assert_null(limits.items[LIMIT_SEQ].question);
    assert_string_equal(limits.items[LIMIT_SEQ].reason, "needs --gpus");
    for (int64_t gpus = 3; gpus <= limit->value; gpus += 3) {
        request.gpus = count(gpus);
        bool fits = fits_at(*state, &request, &is_legal);
        assert_int_equal(fits, gpus == limit->value);
    }
    assert_int_equal(limit->question->layout.dp, limit->value / 3);
}

/* A replica of 3 lies in a node of 8 up to twice; then whole nodes that 3 divides: 24, 48, ... */
static void clusters_are_parts_of_a_node_or_whole_nodes(void **state)
{
    struct request request = request_of(*state, "llama-3.1-70b", 0);
    bool is_legal = false;
    request.sp = count(3);
    request.dp = count(5); /* is free */
    request.seq = count(3000);
    struct limits limits = limits_from(*state, &request);
    const struct limit *limit = &limits.items[LIMIT_GPUS];
    assert_true(limit->is_found);
    assert_int_equal(limit->value % 24, 0);
    request.dp.is_given = false;
    request.gpus = count(limit->value);
    assert_true(fits_at(*state, &request, &is_legal));
    request.gpus = count(limit->value - 24);
    assert_false(limit->value > 24 && fits_at(*state, &request, &is_legal));
}

static void host_memory_binds_where_it_is_short(void **state)
{
    struct request request = request_of(*state, "llama-2-7b", 6);
    request.sp = count(6);
    request.offload = "activations";
    sp_texts_add(&request.set, "node.host_memory=300GB");
    struct limits limits = limits_from(*state, &request);
    const struct limit *limit = &limits.items[LIMIT_SEQ];
    assert_true(limit->is_found);
    assert_string_equal(limit->binding, "host memory");
    assert_close(limit->binding_capacity_bytes, 300e9, 1e-12);
    assert_true(limit->binding_bytes > 300e9 && limit->estimate->host_bytes <= 300e9);
}

/* 20 - 10 of activations, 17 - 3 of attention buffers: the latter grew by 14. Of no smaller one the largest stands. */
static void category_that_grew_most_is_named(void **state)
{
    (void)state;
    static const struct estimate smaller = {.memory_bytes = {30, 5, 7, 10, 3, 2, 1, 4}, .peak_bytes = 62};
    static const struct estimate larger = {
        .memory_bytes = {30, 5, 7, 20, 17, 4, 1, 4}, .peak_bytes = 88, .capacity_bytes = 85, .host_bytes = 9};
    struct limit limit = {0};
    limit_bind(&limit, &larger, &smaller);
    assert_string_equal(limit.binding, "hbm: attention buffers");
    assert_close(limit.binding_bytes, 17, 0);
    limit_bind(&limit, &larger, NULL);
    assert_string_equal(limit.binding, "hbm: weights");
    assert_close(limit.binding_bytes, 30, 0);
}

static void method_that_gathers_is_bound_by_its_buffers(void **state)
{
    struct request request = request_of(*state, "llama-2-7b", 6);
    request.sp = count(6);
    request.method = METHOD_ALLGATHER;
    struct limits limits = limits_from(*state, &request);
    assert_string_equal(limits.items[LIMIT_SEQ].binding, "hbm: attention buffers");
}

static void layout_that_holds_nothing_has_no_length(void **state)
{
    struct request request = request_of(*state, "llama-3.1-405b", 6);
    request.sp = count(6);
    struct limits limits = limits_from(*state, &request);
    const struct limit *limit = &limits.items[LIMIT_SEQ];
    assert_false(limit->is_found);
    assert_non_null(strstr(limit->reason, "not even 12 tokens fit"));
    assert_non_null(limit->question);
    assert_false(limit->estimate->fits);
}

static void model_without_an_end_is_told_to_reach_beyond(void **state)
{
    struct request request = request_of(*state, "llama-2-7b", 6);
    sp_texts_add(&request.set, "model.num_hidden_layers=3");
    sp_texts_add(&request.set, "gpu.hbm_capacity=99TB");
    request.sp = count(6);
    struct limits limits = limits_from(*state, &request);
    const struct limit *limit = &limits.items[LIMIT_SEQ];
    assert_true(limit->is_found && limit->is_beyond);
    assert_true(limit->value <= limits_most_tokens && limit->value > limits_most_tokens - 2 * limit->unit);
    assert_null(limit->binding);
}

/* Documents of 50,001 tokens refuse shorter sequences: the limit stands beyond them all the same. */
static void lengths_that_are_too_short_for_a_rule_are_passed(void **state)
{
    struct request request = request_of(*state, "llama-2-7b", 6);
    request.sp = count(6);
    request.documents = count(50001);
    struct limits limits = limits_from(*state, &request);
    assert_true(limits.items[LIMIT_SEQ].value > 50001);
}

static void rule_that_no_length_keeps_is_an_error(void **state)
{
    struct request request = request_of(*state, "llama-2-7b", 6);
    struct limits limits;
    struct sp_error err = {0};
    request.sp = count(6);
    request.method = METHOD_ULYSSES; /* 32 heads over 6 */
    assert_false(limits_of_layout(&request, *state, &limits, &err));
    assert_int_equal(err.kind, SP_ERROR_USAGE);
    assert_true(err.rule[0] != '\0');
    assert_error_contains(&err, "32 query heads");
}

static void batch_in_tokens_is_refused(void **state)
{
    struct request request = request_of(*state, "llama-2-7b", 6);
    struct limits limits;
    struct sp_error err = {0};
    request.sp = count(6);
    request.global_batch = "3Mtok";
    assert_false(limits_of_layout(&request, *state, &limits, &err));
    assert_error_contains(&err, "expected --global-batch in sequences, found \"3Mtok\"");
}

/* ---- of any layout ---------------------------------------------------------------------------------------------- */

static const struct plan_recompute full[] = {{.kind = RECOMPUTE_FULL}};

/* A space of a few thousand layouts. */
static struct plan_question small_space(struct sp_arena *arena, int64_t gpus)
{
    struct plan_question question;
    plan_question_init(&question, arena);
    question.request = request_of(arena, "llama-2-7b", gpus);
    question.request.zero = -1;
    question.axes.zeros = 1U << 3;
    question.axes.offloads = 1;
    question.axes.n_recomputes = 1;
    question.axes.recomputes = full;
    question.axes.frameworks = 1U << FRAMEWORK_MEGATRON;
    question.n_threads = 1;
    return question;
}

static struct limits any_from(struct sp_arena *arena, const struct plan_question *question)
{
    struct limits limits;
    struct sp_error err = {0};
    if (!limits_of_any(question, arena, &limits, &err)) {
        fail_msg("%s", err.text);
    }
    return limits;
}

static int search_length(struct sp_arena *arena, struct plan_question question, int64_t gpus, int64_t seq)
{
    struct plan plan;
    struct sp_error err = {0};
    static const int64_t one = 1;
    question.request.seq = count(seq);
    question.request.global_batch = sp_format(arena, "%lld", (long long)limits_batch(gpus, 1));
    question.axes.micro_batch = (struct plan_counts){.n = 1, .values = &one};
    assert_true(plan_search(&question, arena, &plan, &err));
    return plan.n_layouts;
}

static void something_holds_the_longest_sequence_and_nothing_one_unit_more(void **state)
{
    struct plan_question question = small_space(*state, 6);
    struct limits limits = any_from(*state, &question);
    const struct limit *limit = &limits.items[LIMIT_SEQ];
    assert_true(limit->is_found && !limit->is_beyond);
    assert_true(search_length(*state, question, 6, limit->value) > 0);
    assert_int_equal(search_length(*state, question, 6, limit->value + limit->unit), 0);
    assert_true(limit->n_searches < 10);
    assert_true(limit->estimate->fits);
}

static void no_layout_is_longer_than_any_layout(void **state)
{
    struct plan_question question = small_space(*state, 6);
    struct limits any = any_from(*state, &question);
    const struct {
        int64_t tp, sp;
        int method;
    } rows[] = {{1, 6, METHOD_ZIGZAG}, {1, 6, METHOD_ALLGATHER}, {2, 3, METHOD_ZIGZAG}, {1, 6, METHOD_USP}};
    for (size_t i = 0; i < SP_COUNT_OF(rows); i++) {
        struct request request = request_of(*state, "llama-2-7b", 6);
        request.tp = count(rows[i].tp);
        request.sp = count(rows[i].sp);
        request.method = rows[i].method;
        request.framework = FRAMEWORK_MEGATRON;
        struct limits own = limits_from(*state, &request);
        assert_true(own.items[LIMIT_SEQ].value < any.items[LIMIT_SEQ].value + any.items[LIMIT_SEQ].unit);
    }
}

/* 540,540 tokens cut into 10 chunks, not into 16: 5 GPUs hold what 8 do not. */
static void fewest_gpus_of_any_layout_hold_what_fewer_do_not(void **state)
{
    static const int64_t seqs[] = {180180, 540540};
    for (size_t i = 0; i < SP_COUNT_OF(seqs); i++) {
        struct plan_question question = small_space(*state, 0);
        question.request.seq = count(seqs[i]);
        struct limits limits = any_from(*state, &question);
        const struct limit *limit = &limits.items[LIMIT_GPUS];
        assert_true(limit->is_found && limit->value > 1 && limit->value <= 8);
        for (int64_t gpus = 1; gpus <= limit->value; gpus++) {
            question.request.gpus = count(gpus);
            int n_layouts = search_length(*state, question, gpus, seqs[i]);
            assert_int_equal(n_layouts > 0, gpus == limit->value);
        }
        assert_non_null(strstr(limit->binding, "hbm: "));
    }
}

/* Powers of two alone would answer 128 or 256; one node less than the answer holds nothing. */
static void clusters_of_many_nodes_are_told_to_a_node(void **state)
{
    struct plan_question question = small_space(*state, 0);
    question.request.seq = count((int64_t)3 << 22);
    struct limits limits = any_from(*state, &question);
    const struct limit *limit = &limits.items[LIMIT_GPUS];
    assert_true(limit->is_found && limit->value > 64);
    assert_true((limit->value & (limit->value - 1)) != 0);
    assert_true(limit->is_at_most);
    assert_int_equal(search_length(*state, question, limit->value - 8, (int64_t)3 << 22), 0);
    question.request.gpus = count(limit->value);
    assert_true(search_length(*state, question, limit->value, (int64_t)3 << 22) > 0);
}

static void lengths_of_any_layout_begin_at_the_documents(void **state)
{
    struct plan_question question = small_space(*state, 6);
    question.request.documents = count(50001);
    struct limits limits = any_from(*state, &question);
    assert_true(limits.items[LIMIT_SEQ].is_found && limits.items[LIMIT_SEQ].value > 50001);
}

/* 15 sequences: 1, 3, 5 or 15 of them in a micro-batch, and no more than there are. */
static void batch_that_is_given_ends_the_micro_batches_of_any_layout(void **state)
{
    struct plan_question question = small_space(*state, 6);
    question.request.seq = count(1200);
    question.request.global_batch = "15";
    struct limits limits = any_from(*state, &question);
    const struct limit *limit = &limits.items[LIMIT_MICRO_BATCH];
    assert_int_equal(limit->value, 15);
    assert_false(limit->is_beyond);
    assert_string_equal(limit->binding, "global batch");
}

static void space_that_holds_nothing_says_so(void **state)
{
    struct plan_question question = small_space(*state, 1);
    question.request.model = "llama-3.1-70b";
    struct limits limits = any_from(*state, &question);
    assert_false(limits.items[LIMIT_SEQ].is_found);
    assert_non_null(strstr(limits.items[LIMIT_SEQ].reason, "no layout holds even 1024 tokens"));
    assert_non_null(limits.items[LIMIT_SEQ].binding);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(longest_sequence_fits_and_one_unit_more_does_not, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(largest_micro_batch_fits_and_one_more_does_not, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(micro_batches_divide_a_batch_that_is_given, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(fewest_gpus_fit_and_fewer_do_not, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(clusters_are_parts_of_a_node_or_whole_nodes, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(host_memory_binds_where_it_is_short, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(category_that_grew_most_is_named, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(method_that_gathers_is_bound_by_its_buffers, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(layout_that_holds_nothing_has_no_length, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(model_without_an_end_is_told_to_reach_beyond, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(lengths_that_are_too_short_for_a_rule_are_passed, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(rule_that_no_length_keeps_is_an_error, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(batch_in_tokens_is_refused, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(something_holds_the_longest_sequence_and_nothing_one_unit_more, open_arena,
                                        close_arena),
        cmocka_unit_test_setup_teardown(no_layout_is_longer_than_any_layout, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(fewest_gpus_of_any_layout_hold_what_fewer_do_not, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(clusters_of_many_nodes_are_told_to_a_node, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(lengths_of_any_layout_begin_at_the_documents, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(batch_that_is_given_ends_the_micro_batches_of_any_layout, open_arena,
                                        close_arena),
        cmocka_unit_test_setup_teardown(space_that_holds_nothing_says_so, open_arena, close_arena),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The combinations of --vary. */
#include "cmd/sweep.h"
#include "support/support.h"

#include <string.h>

struct sample {
    struct sp_arena *arena;
    struct command_context context;
    struct command_options options;
    struct sweep sweep;
    struct points points;
    struct sp_error err;
};

/* The words of an estimate: a question, and then what varies. */
static bool read_points(struct sample *sample, const char *const *vary, size_t n_vary)
{
    *sample = (struct sample){.arena = sp_arena_open()};
    sample->options = (struct command_options){.vary = {.arena = sample->arena}};
    request_init(&sample->options.request, sample->arena);
    sample->options.request.model = "llama-3.1-8b";
    sample->options.request.hardware = "dgx-h100";
    sample->options.request.gpus = (struct sp_option_count){.is_given = true, .value = 24};
    sample->options.request.seq = (struct sp_option_count){.is_given = true, .value = 393217};
    for (size_t i = 0; i < n_vary; i++) {
        sp_texts_add(&sample->options.vary, "%s", vary[i]);
    }
    sample->context.arena = sample->arena;
    sample->sweep = (struct sweep){.context = &sample->context, .command = "estimate", .options = &sample->options};
    return points_read(&sample->sweep, &sample->points, &sample->err);
}

static void the_last_one_varies_fastest(void **state)
{
    (void)state;
    static const char *const vary[] = {"tp=2,6", "gpu.hbm_bandwidth=2TB/s,3TB/s,5TB/s", "sp=1,3,5"};
    static const struct {
        int64_t point;
        const char *values[3];
    } expected[] = {{0, {"2", "2TB/s", "1"}}, {1, {"2", "2TB/s", "3"}},  {3, {"2", "3TB/s", "1"}},
                    {9, {"6", "2TB/s", "1"}}, {16, {"6", "5TB/s", "3"}}, {17, {"6", "5TB/s", "5"}}};
    struct sample sample;
    assert_true(read_points(&sample, vary, SP_COUNT_OF(vary)));
    assert_int_equal(sample.points.n_points, 18);
    for (size_t i = 0; i < SP_COUNT_OF(expected); i++) {
        const char **values = points_values(&sample.points, sample.arena, expected[i].point);
        for (int at = 0; at < sample.points.n_varied; at++) {
            assert_string_equal(values[at], expected[i].values[at]);
        }
    }
    sp_arena_close(sample.arena);
}

static void a_point_is_the_base_with_its_values(void **state)
{
    (void)state;
    static const char *const vary[] = {"seq=40K,61K,96K", "gpu.hbm_bandwidth=2TB/s,3TB/s"};
    struct sample sample;
    assert_true(read_points(&sample, vary, SP_COUNT_OF(vary)));
    struct command_options options;
    assert_true(points_options(&sample.points, sample.arena, 3, &options, &sample.err));
    assert_int_equal(options.request.seq.value, 61 * 1024);
    assert_int_equal(options.request.set.count, 1);
    assert_string_equal(options.request.set.items[0], "gpu.hbm_bandwidth=3TB/s");
    assert_string_equal(options.request.model, "llama-3.1-8b");
    assert_int_equal(sample.options.request.seq.value, 393217); /* the base stays */
    assert_int_equal(sample.options.request.set.count, 0);
    sp_arena_close(sample.arena);
}

/* "NAME=1,2,...,N". */
static const char *many(struct sp_arena *arena, const char *name, int n_values)
{
    struct sp_texts values = {.arena = arena};
    for (int i = 1; i <= n_values; i++) {
        sp_texts_add(&values, "%d", i);
    }
    return sp_format(arena, "%s=%s", name, sp_join(arena, values.items, values.count, ","));
}

static void a_million_is_the_limit(void **state)
{
    (void)state;
    struct sp_arena *arena = sp_arena_open();
    const char *const most[] = {many(arena, "tp", 1000), many(arena, "sp", 1000)};
    struct sample sample;
    assert_true(read_points(&sample, most, SP_COUNT_OF(most)));
    assert_int_equal(sample.points.n_points, 1000000);
    assert_string_equal(points_values(&sample.points, sample.arena, 999998)[1], "999");
    sp_arena_close(sample.arena);
    const char *const more[] = {most[0], most[1], "pp=1,3"};
    assert_false(read_points(&sample, more, SP_COUNT_OF(more)));
    assert_non_null(strstr(sample.err.text, "more than 1000000 combinations"));
    sp_arena_close(sample.arena);
    sp_arena_close(arena);
}

static void the_ninth_is_refused(void **state)
{
    (void)state;
    static const char *const vary[] = {"tp=1,3", "sp=1,3", "pp=1,3",   "dp=1,3",      "ep=1,3",
                                       "vpp=1",  "etp=1",  "zero=1,3", "documents=8K"};
    struct sample sample;
    assert_false(read_points(&sample, vary, SP_COUNT_OF(vary)));
    assert_string_equal(sample.err.text, "--vary: more than 8 of them");
    sp_arena_close(sample.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_one_varies_fastest),
        cmocka_unit_test(a_point_is_the_base_with_its_values),
        cmocka_unit_test(a_million_is_the_limit),
        cmocka_unit_test(the_ninth_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

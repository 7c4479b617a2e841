/* What the device program measured of methods and layers beside what the model says. The half of the lines that helped to find
 * the model, and the half that only judges it: by one bit of the hash of a line's key. */
#include "fit/fit.h"
#include "method/method.h"
#include "report/report.h"

#include "support/questions.h"
#include "support/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char measured[] = "tests/validation/measured/h200-x2-methods.jsonl";

enum { MAX_LINES = 400 };
enum judge { FOUND_WITH, JUDGES }; /* the two halves */

struct pair {
    struct measurement line;
    double predicted_s;
    enum judge half;
};
struct pairs {
    struct sp_arena *arena;
    struct fit_machine machine;
    struct pair items[MAX_LINES];
    int n;
};

static struct question question;

static const char *text_of(const struct measurement *line, const char *name)
{
    const struct sp_json *member = sp_json_member(line->parameters, name);
    return member != NULL && member->type == SP_JSON_STRING ? member->string : "";
}

static double number_of(const struct measurement *line, const char *name)
{
    const struct sp_json *member = sp_json_member(line->parameters, name);
    return member != NULL ? member->number : 0;
}

/* One of the upper half's bits: those of FNV-1a's low end are parities of the text. */
static enum judge half_of(const char *key)
{
    return (report_fnv1a(key) >> 32 & 1) != 0 ? JUDGES : FOUND_WITH;
}

static void open_machine(struct pairs *pairs)
{
    pairs->arena = sp_arena_open();
    pairs->n = 0;
    question_from(pairs->arena, "model=llama-3.1-8b hardware=dgx-h200 gpus=2 sp=2 seq=16K", &question);
    pairs->machine = (struct fit_machine){.hardware = &question.hardware, .kernel = "seqplan"};
}

static void add_line(struct pairs *pairs, const char *text)
{
    struct sp_error err = {0};
    struct pair *pair = &pairs->items[pairs->n];
    assert_true(measurement_parse(pairs->arena, text, strlen(text), &pair->line, &err));
    if (pair->line.kind != MEASUREMENT_TIMED) {
        return;
    }
    if (!fit_predict(pairs->arena, &pairs->machine, &pair->line, &pair->predicted_s, &err)) {
        fail_msg("%s: %s", pair->line.key, err.text);
    }
    pair->half = half_of(pair->line.key);
    pairs->n++;
    assert_true(pairs->n < MAX_LINES);
}

static void read_pairs(struct pairs *pairs)
{
    char text[4096];
    FILE *file = fopen(measured, "r");
    assert_non_null(file);
    open_machine(pairs);
    while (fgets(text, sizeof(text), file) != NULL) {
        add_line(pairs, text);
    }
    assert_int_equal(fclose(file), 0);
}

static double error_of(const struct pair *pair)
{
    return pair->predicted_s / pair->line.median_s - 1;
}

/* SEQPLAN_HARNESS_TABLE=found or =judges: the lines of that half. */
static void print_table(const struct pairs *pairs, enum judge half)
{
    const char *asked = getenv("SEQPLAN_HARNESS_TABLE");
    if (asked == NULL || strcmp(asked, half == JUDGES ? "judges" : "found") != 0) {
        return;
    }
    for (int i = 0; i < pairs->n; i++) {
        const struct pair *pair = &pairs->items[i];
        const struct measurement *line = &pair->line;
        if (pair->half == half) {
            print_message("%-6s %-9s %-8s %-7s %2.0f r%-2.0f %6.0f %-7s %-9s %10.1f %10.1f %+6.1f %%\n",
                          measurement_group_names[line->group], text_of(line, "method"), text_of(line, "pass"),
                          text_of(line, "ranks_are"), number_of(line, "ranks"), number_of(line, "rank"),
                          number_of(line, "tokens"), text_of(line, "gradients"), text_of(line, "part"),
                          line->median_s * 1e6, pair->predicted_s * 1e6, 100 * error_of(pair));
        }
    }
}

/* Which lines a bound is of. */
struct sort {
    enum measurement_group group;
    const char *ranks_are, *part; /* part NULL: attention, with its transfers or without */
    double median, worst;         /* bounds, relative, of the half that judges */
    double found_median, found_worst;
};

static bool is_of(const struct pair *pair, const struct sort *sort)
{
    bool is_transfers = strcmp(text_of(&pair->line, "part"), "transfers") == 0;
    return pair->line.group == sort->group && strcmp(text_of(&pair->line, "ranks_are"), sort->ranks_are) == 0 &&
           is_transfers == (sort->part != NULL);
}

static int compare_doubles(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return a < b ? -1 : a > b;
}

static void check_half(const struct pairs *pairs, const struct sort *sort, enum judge half)
{
    double errors[MAX_LINES];
    int n = 0;
    double bias = 0;
    for (int i = 0; i < pairs->n; i++) {
        if (pairs->items[i].half == half && is_of(&pairs->items[i], sort)) {
            bias += error_of(&pairs->items[i]);
            errors[n++] = fabs(error_of(&pairs->items[i]));
        }
    }
    assert_true(n > 0);
    qsort(errors, (size_t)n, sizeof(errors[0]), compare_doubles);
    double median = n % 2 == 1 ? errors[n / 2] : (errors[n / 2 - 1] + errors[n / 2]) / 2;
    print_message("%s %s %s, %s: %d lines, median %.4f, worst %.4f, bias %+.4f\n",
                  measurement_group_names[sort->group], sort->ranks_are, sort->part == NULL ? "" : sort->part,
                  half == JUDGES ? "judge" : "found with", n, median, errors[n - 1], bias / n);
    if (half == JUDGES) {
        assert_true(median <= sort->median && errors[n - 1] <= sort->worst);
    } else {
        assert_true(median <= sort->found_median && errors[n - 1] <= sort->found_worst);
    }
}

static void measured_lines_are_predicted(void **state)
{
    (void)state;
    static const struct sort sorts[] = {
        {MEASUREMENT_METHOD, "virtual", NULL, 1, 1, 1, 1},
        {MEASUREMENT_METHOD, "gpus", NULL, 1, 1, 1, 1},
        {MEASUREMENT_LAYER, "virtual", NULL, 1, 1, 1, 1},
        {MEASUREMENT_LAYER, "gpus", NULL, 1, 1, 1, 1},
        {MEASUREMENT_METHOD, "virtual", "transfers", 1, 1, 1, 1},
        {MEASUREMENT_METHOD, "gpus", "transfers", 1, 1, 1, 1},
    };
    static struct pairs pairs;
    read_pairs(&pairs);
    assert_int_equal(pairs.n, 237);
    print_table(&pairs, FOUND_WITH);
    print_table(&pairs, JUDGES);
    const char *judging = getenv("SEQPLAN_HARNESS_BLIND"); /* while a model is sought, its judges stay unseen */
    for (size_t i = 0; i < SP_COUNT_OF(sorts); i++) {
        check_half(&pairs, &sorts[i], FOUND_WITH);
        if (judging == NULL) {
            check_half(&pairs, &sorts[i], JUDGES);
        }
    }
    sp_arena_close(pairs.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(measured_lines_are_predicted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* A Gantt chart as letters: for each column of time what took most of it. */
#include "report/gantt.h"

#include <math.h>
#include <string.h>

enum { GAP = 1, LEAST_COLUMNS = 20 };

/* The letter of a column; a blank when waiting is the largest part of it. */
static int letter_at(const struct gantt_picture *picture, int row, double begin_s, double end_s)
{
    double shares[N_GANTT_KINDS] = {0.0};
    double waiting = 1.0;
    for (int i = 0; i < picture->n_boxes; i++) {
        const struct gantt_box *box = &picture->boxes[i];
        double overlap_s = fmin(box->end_s, end_s) - fmax(box->begin_s, begin_s);
        if (box->row == row && overlap_s > 0.0) {
            double share = overlap_s / (end_s - begin_s) * (box->high - box->low);
            shares[box->kind] += share;
            waiting -= share;
        }
    }
    int largest = 0;
    for (int kind = 1; kind < (int)N_GANTT_KINDS; kind++) {
        largest = shares[kind] > shares[largest] ? kind : largest;
    }
    return shares[largest] > waiting ? gantt_styles[largest].letter : ' ';
}

static const char *legend_text(struct sp_arena *arena, const struct gantt_picture *picture)
{
    struct sp_texts texts = {.arena = arena};
    for (int kind = 0; kind < (int)N_GANTT_KINDS; kind++) {
        bool is_there = false;
        for (int i = 0; i < picture->n_boxes; i++) {
            is_there = is_there || picture->boxes[i].kind == (enum gantt_kind)kind;
        }
        if (is_there) {
            sp_texts_add(&texts, "%c %s", gantt_styles[kind].letter, gantt_styles[kind].name);
        }
    }
    return sp_join(arena, texts.items, texts.count, ", ");
}

void gantt_print(const struct report_style *style, struct sp_arena *arena, const struct gantt_picture *picture)
{
    bool is_markdown = style->format == REPORT_MARKDOWN;
    int label_width = 0;
    for (int row = 0; row < picture->n_rows; row++) {
        int width = report_text_width(picture->labels[row]);
        label_width = width > label_width ? width : label_width;
    }
    int room = REPORT_COLUMNS - 2 - label_width - GAP - 2; /* two bars beside it */
    int n_columns = room > LEAST_COLUMNS ? room : LEAST_COLUMNS;
    double column_s = (picture->end_s - picture->begin_s) / n_columns;
    (void)fputs(is_markdown ? "\n```\n" : "\n", style->file);
    for (int row = 0; row < picture->n_rows; row++) {
        int padding = label_width - report_text_width(picture->labels[row]) + GAP;
        (void)fprintf(style->file, "  %s%*s|", picture->labels[row], padding, "");
        for (int column = 0; column < n_columns; column++) {
            double begin_s = picture->begin_s + column * column_s;
            (void)fputc(letter_at(picture, row, begin_s, begin_s + column_s), style->file);
        }
        (void)fputs("|\n", style->file);
    }
    const char *begin = report_step_time(arena, picture->begin_s);
    const char *end = report_step_time(arena, picture->end_s);
    int between = n_columns - report_text_width(begin) - report_text_width(end);
    (void)fprintf(style->file, "  %*s%s%*s%s\n", label_width + GAP + 1, "", begin, between > 1 ? between : 1, "", end);
    report_wrap(style->file, 2, "", sp_format(arena, "%s; blank: waiting", legend_text(arena, picture)));
    (void)fputs(is_markdown ? "```\n" : "", style->file);
}

/* What the files of a Gantt chart share: the picture as rows of boxes, ready to be drawn. */
#ifndef SEQPLAN_GANTT_H
#define SEQPLAN_GANTT_H

#include "report/report.h"

/* What a box stands for; waiting is drawn as nothing. */
enum gantt_kind {
    GANTT_ATTENTION,
    GANTT_GEMM,
    GANTT_ELEMENTWISE,
    GANTT_TP,
    GANTT_SP,
    GANTT_EP,
    GANTT_DP,
    GANTT_PP,
    GANTT_OPTIMIZER,
    GANTT_OFFLOAD,
    GANTT_OTHER,
    N_GANTT_KINDS
};
/* Name, colour and letter of a kind. The colours are those of Okabe and Ito, which differ to every kind of eye, and greys. */
struct gantt_style {
    const char *name;
    const char *color;
    char letter;
};
extern const struct gantt_style gantt_styles[N_GANTT_KINDS];

/* Of one row: from time to time, and of its height from part to part (0 below, 1 above). */
struct gantt_box {
    enum gantt_kind kind;
    int row;
    double begin_s, end_s;
    double low, high;
};
struct gantt_picture {
    const char *title;    /* what was asked */
    const char *subtitle; /* its layout */
    const char *note;     /* how to read it, and what is left out */
    double begin_s, end_s;
    int n_rows;
    const char **labels;
    int n_boxes;
    const struct gantt_box *boxes;
};

/* As a picture through gnuplot (gantt_plot.c). */
bool gantt_plot(struct sp_arena *arena, const struct gantt_picture *picture, const char *path,
                struct sp_error *err) SP_MUST_CHECK;
/* "svg", "png" or "pdf" by the end of the name; NULL: none of them. */
const char *gantt_format(const char *path);
/* Whether gnuplot runs at all. */
bool gnuplot_check(struct sp_error *err) SP_MUST_CHECK;
/* What gnuplot prints for a script, as a file that appears whole or not at all. The caller closes the script, a temporary file. */
bool gnuplot_draw(struct sp_arena *arena, FILE *script, const char *path, struct sp_error *err) SP_MUST_CHECK;
/* As text, a letter for each column of time (gantt_text.c). */
void gantt_print(const struct report_style *style, struct sp_arena *arena, const struct gantt_picture *picture);

#endif

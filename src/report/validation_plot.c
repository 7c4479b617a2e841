/* Pictures of a validation through gnuplot: predicted against measured, and errors against the length of sequences. */
#include "report/gantt.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* Colours of Okabe and Ito, which differ to every kind of eye; the symbol changes where they begin anew. */
static const char *const colors[] = {"#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#000000"};
static const char grey[] = "#777777";
/* Symbols of gnuplot: filled circle, triangles, square, diamond, pentagon. */
static const int symbols[] = {7, 9, 5, 13, 11, 15};

struct picture {
    FILE *script;
    struct sp_arena *arena;
    const struct report_validation *validation;
};

static bool is_shown(const struct picture *picture, const struct validation_row *row)
{
    return row->state == VALIDATION_COMPARED && row->quantity->unit != VALIDATION_YES_NO && row->predicted > 0.0 &&
           (picture->validation->roles >> (unsigned)row->role & 1U) != 0;
}

static void put_terminal(FILE *script, const char *format, int width, int height)
{
    enum { DOTS_PER_INCH = 100 };
    if (strcmp(format, "svg") == 0) {
        (void)fprintf(script, "set terminal svg size %d,%d font 'sans,14' background '#ffffff' dynamic\n", width,
                      height);
    } else if (strcmp(format, "png") == 0) {
        (void)fprintf(script, "set terminal pngcairo size %d,%d font 'sans,11' background '#ffffff'\n", width, height);
    } else {
        (void)fprintf(script, "set terminal pdfcairo size %.2fin,%.2fin font 'sans,10' background '#ffffff'\n",
                      (double)width / DOTS_PER_INCH, (double)height / DOTS_PER_INCH);
    }
    (void)fputs("set encoding utf8\nset border 3 lc rgb '#555555'\nset tics nomirror out\n"
                "set grid lc rgb '#d0d0d0' lw 1 back\n",
                script);
}

/* Without what would end a string of gnuplot between single quotes. */
static void put_quoted(FILE *script, const char *text)
{
    (void)fputc('\'', script);
    for (; *text != '\0'; text++) {
        (void)fputs(*text == '\'' ? "'" : "", script);
        (void)fputc(*text, script);
    }
    (void)fputc('\'', script);
}

bool report_validation_can_plot(const char *path, struct sp_error *err)
{
    if (gantt_format(path) == NULL) {
        return sp_fail(err, SP_ERROR_USAGE, "expected a name that ends in .svg, .png or .pdf, found \"%.80s\"", path);
    }
    return gnuplot_check(err);
}

/* ---- predicted against measured ----------------------------------------------------------------------------------- */

/* A panel holds what has one unit; whole steps stand apart from their parts. */
struct panel {
    enum validation_unit unit;
    bool has_steps, has_parts;
    const char *title, *axis;
    double scale;
};
static const struct panel panels[] = {
    {VALIDATION_SECONDS, true, false, "Steps", "s", 1.0},
    {VALIDATION_SECONDS, false, true, "Parts of a step", "ms", 1e3},
    {VALIDATION_BYTES, true, true, "Memory", "GiB", 1.0 / 0x1p30},
    {VALIDATION_RATE, true, false, "Tokens/s of a GPU", "1/s", 1.0},
    {VALIDATION_RATE, false, true, "Attentions/s", "1/s", 1.0},
    {VALIDATION_FLOP_PER_S, true, true, "FLOP/s of a GPU", "TFLOP/s", 1e-12},
};

static bool is_of_panel(const struct picture *picture, const struct panel *panel, const struct validation_row *row)
{
    bool is_step = row->quantity->family == VALIDATION_STEP;
    return is_shown(picture, row) && row->quantity->unit == panel->unit &&
           (is_step ? panel->has_steps : panel->has_parts);
}

struct range {
    double low, high;
    int n;
    int n_of[2]; /* by role */
};

static struct range range_of(const struct picture *picture, const struct panel *panel)
{
    const struct validation_set *set = picture->validation->set;
    struct range range = {.low = INFINITY, .high = 0.0};
    for (int i = 0; i < set->n_sources; i++) {
        for (int j = 0; j < set->sources[i].n_rows; j++) {
            const struct validation_row *row = &set->sources[i].rows[j];
            if (is_of_panel(picture, panel, row)) {
                range.low = fmin(range.low, fmin(row->measured, row->predicted) * panel->scale);
                range.high = fmax(range.high, fmax(row->measured, row->predicted) * panel->scale);
                range.n++;
                range.n_of[row->role]++;
            }
        }
    }
    return range;
}

static void put_points(const struct picture *picture, const struct panel *panel, int index, enum validation_role role)
{
    const struct validation_set *set = picture->validation->set;
    (void)fprintf(picture->script, "$p%d_%d << END\n", index, (int)role);
    for (int i = 0; i < set->n_sources; i++) {
        for (int j = 0; j < set->sources[i].n_rows; j++) {
            const struct validation_row *row = &set->sources[i].rows[j];
            if (is_of_panel(picture, panel, row) && row->role == role) {
                (void)fprintf(picture->script, "%.9g %.9g\n", row->measured * panel->scale,
                              row->predicted * panel->scale);
            }
        }
    }
    (void)fputs("END\n", picture->script);
}

/* The diagonal, a band of 10 % about it, and the points: those that judge over the others. */
static void put_panel(const struct picture *picture, const struct panel *panel, int index)
{
    static const double margin = 1.3;
    const struct range range = range_of(picture, panel);
    FILE *script = picture->script;
    put_points(picture, panel, index, VALIDATION_JUDGE);
    put_points(picture, panel, index, VALIDATION_FIT);
    double low = range.low / margin;
    double high = range.high * margin;
    (void)fprintf(
        script,
        "set title '%s' noenhanced\nset xlabel 'measured, %s' noenhanced\nset ylabel 'predicted, %s' noenhanced\n"
        "set logscale xy\nset xrange [%.9g:%.9g]\nset yrange [%.9g:%.9g]\nset size square\n"
        "set format xy '%s'\nset key top left Left reverse samplen 1 width -2\n",
        panel->title, panel->axis, panel->axis, low, high, low, high, high / low > 1e4 ? "10^{%T}" : "%g");
    (void)fprintf(script, "plot '+' using 1:(0.9*$1):(1.1*$1) with filledcurves fc rgb '#d9e6f2' notitle, "
                          "x with lines lc rgb '#555555' lw 1 notitle");
    if (range.n_of[VALIDATION_FIT] > 0) {
        (void)fprintf(script, ", $p%d_%d using 1:2 with points pt 6 ps 0.7 lw 1.2 lc rgb '%s' title 'fitted (%d)'",
                      index, (int)VALIDATION_FIT, grey, range.n_of[VALIDATION_FIT]);
    }
    if (range.n_of[VALIDATION_JUDGE] > 0) {
        (void)fprintf(script, ", $p%d_%d using 1:2 with points pt 7 ps 0.8 lc rgb '%s' title 'judging (%d)'", index,
                      (int)VALIDATION_JUDGE, colors[0], range.n_of[VALIDATION_JUDGE]);
    }
    (void)fputc('\n', script);
}

static int count_panels(const struct picture *picture)
{
    int n = 0;
    for (size_t i = 0; i < SP_COUNT_OF(panels); i++) {
        n += range_of(picture, &panels[i]).n > 0 ? 1 : 0;
    }
    return n;
}

static void put_scatter(const struct picture *picture, const char *format)
{
    enum { PANEL = 430, TITLE = 60, MOST_COLUMNS = 3 };
    int n = count_panels(picture);
    int n_columns = n == 4 ? 2 : n < MOST_COLUMNS ? n : MOST_COLUMNS;
    int n_lines = (n + n_columns - 1) / n_columns;
    put_terminal(picture->script, format, PANEL * n_columns, PANEL * n_lines + TITLE);
    (void)fprintf(picture->script,
                  "set multiplot layout %d,%d title 'Predicted against measured (line: equal, band: 10 %% about it)' "
                  "noenhanced\nset samples 200\nset lmargin 9\nset rmargin 2\nset bmargin 4\nset tmargin 3\n",
                  n_lines, n_columns);
    for (size_t i = 0; i < SP_COUNT_OF(panels); i++) {
        if (range_of(picture, &panels[i]).n > 0) {
            put_panel(picture, &panels[i], (int)i);
        }
    }
    (void)fputs("unset multiplot\n", picture->script);
}

/* ---- errors against the length ------------------------------------------------------------------------------------ */

static const double most_frac = 0.4; /* errors beyond stand at the edge */

/* A rate is turned into the time of what it counts. */
enum residual { RESIDUAL_STEP, RESIDUAL_PART, RESIDUAL_MEMORY, N_RESIDUALS };
static const char *const residual_titles[N_RESIDUALS] = {"Steps (rates turned into times)",
                                                         "Parts of a step (rates turned into times)", "Memory"};

static bool is_in(const struct picture *picture, const struct validation_row *row, enum residual residual)
{
    enum residual own = row->quantity->unit == VALIDATION_BYTES    ? RESIDUAL_MEMORY
                        : row->quantity->family == VALIDATION_STEP ? RESIDUAL_STEP
                                                                   : RESIDUAL_PART;
    return is_shown(picture, row) && row->seq > 0 && own == residual;
}

static double residual_of(const struct validation_row *row)
{
    bool is_time = row->quantity->unit == VALIDATION_SECONDS || row->quantity->unit == VALIDATION_BYTES;
    return is_time ? row->error_frac : 1.0 / (1.0 + row->error_frac) - 1.0;
}

static int count_in(const struct picture *picture, const struct validation_source *source, enum residual residual,
                    int *n_beyond)
{
    int n = 0;
    for (int i = 0; i < source->n_rows; i++) {
        if (is_in(picture, &source->rows[i], residual)) {
            n++;
            *n_beyond += fabs(residual_of(&source->rows[i])) > most_frac ? 1 : 0;
        }
    }
    return n;
}

/* Points of one length are spread a little by source, so that they do not hide each other. */
static void put_residuals(const struct picture *picture, int index, enum residual residual, enum validation_role role)
{
    static const double percent = 100.0;
    static const double spread_octaves = 0.3; /* of all sources */
    const struct validation_set *set = picture->validation->set;
    const struct validation_source *source = &set->sources[index];
    double shift = exp2(spread_octaves * ((index + 0.5) / set->n_sources - 0.5));
    (void)fprintf(picture->script, "$r%d_%d_%d << END\n", (int)residual, index, (int)role);
    for (int i = 0; i < source->n_rows; i++) {
        const struct validation_row *row = &source->rows[i];
        if (is_in(picture, row, residual) && row->role == role) {
            double error = fmax(-most_frac, fmin(most_frac, residual_of(row)));
            (void)fprintf(picture->script, "%.9g %.6g\n", (double)row->seq * shift, percent * error);
        }
    }
    (void)fputs("END\n", picture->script);
}

static void put_length_tics(const struct picture *picture)
{
    int64_t low = INT64_MAX;
    int64_t high = 1;
    for (int i = 0; i < picture->validation->set->n_sources; i++) {
        const struct validation_source *source = &picture->validation->set->sources[i];
        for (int j = 0; j < source->n_rows; j++) {
            const struct validation_row *row = &source->rows[j];
            bool counts = is_shown(picture, row) && row->seq > 0;
            low = counts && row->seq < low ? row->seq : low;
            high = counts && row->seq > high ? row->seq : high;
        }
    }
    (void)fprintf(picture->script, "set logscale x 2\nset xrange [%.9g:%.9g]\nset xtics (", (double)low / 1.4,
                  (double)high * 1.4);
    const char *gap = "";
    for (int64_t length = 1; length <= 2 * high; length *= 2) {
        if (2 * length >= low) {
            (void)fprintf(picture->script, "%s'%s' %lld", gap, sp_tokens_print(picture->arena, length),
                          (long long)length);
            gap = ", ";
        }
    }
    (void)fputs(")\n", picture->script);
}

static void put_residual_axes(const struct picture *picture, enum residual residual, int n_beyond)
{
    (void)fprintf(picture->script, "set title '%s%s' noenhanced\n", residual_titles[residual],
                  n_beyond == 0 ? ""
                                : sp_format(picture->arena, "; %d row%s beyond 40 %% at the edge", n_beyond,
                                            sp_plural(n_beyond)));
    put_length_tics(picture);
    (void)fputs("set yrange [-43:43]\nset ytics 10\nset ylabel 'error of the prediction, %' noenhanced\n"
                "set xlabel 'tokens in a sequence'\nset key outside right top Left reverse samplen 1 noenhanced\n",
                picture->script);
}

/* Filled symbols judge, hollow ones of the same shape and colour do not. */
static void put_series(const struct picture *picture, int index, enum residual residual, const int *n_of)
{
    const char *name = picture->validation->set->sources[index].name;
    bool is_named = false;
    for (int role = VALIDATION_FIT; role >= (int)VALIDATION_JUDGE; role--) {
        if (n_of[role] == 0) {
            continue;
        }
        int symbol = symbols[index / (int)SP_COUNT_OF(colors) % (int)SP_COUNT_OF(symbols)] -
                     (role == (int)VALIDATION_FIT ? 1 : 0);
        (void)fprintf(picture->script, ", $r%d_%d_%d using 1:2 with points pt %d ps 0.9 lw 1.3 lc rgb '%s' ",
                      (int)residual, index, role, symbol, colors[index % (int)SP_COUNT_OF(colors)]);
        if (is_named || (role == (int)VALIDATION_FIT && n_of[VALIDATION_JUDGE] > 0)) {
            (void)fputs("notitle", picture->script);
        } else {
            (void)fputs("title ", picture->script);
            put_quoted(picture->script, name);
            is_named = true;
        }
    }
}

static void put_residual_panel(const struct picture *picture, enum residual residual)
{
    const struct validation_set *set = picture->validation->set;
    int(*n_of)[2] = sp_arena_array(picture->arena, (size_t)set->n_sources, sizeof(*n_of));
    int n_beyond = 0;
    for (int i = 0; i < set->n_sources; i++) {
        (void)count_in(picture, &set->sources[i], residual, &n_beyond);
        for (int j = 0; j < set->sources[i].n_rows; j++) {
            const struct validation_row *row = &set->sources[i].rows[j];
            n_of[i][row->role] += is_in(picture, row, residual) ? 1 : 0;
        }
        put_residuals(picture, i, residual, VALIDATION_JUDGE);
        put_residuals(picture, i, residual, VALIDATION_FIT);
    }
    put_residual_axes(picture, residual, n_beyond);
    (void)fputs("plot '+' using 1:(-10):(10) with filledcurves fc rgb '#d9e6f2' notitle, 0 with lines lc rgb '#555555' "
                "lw 1 notitle",
                picture->script);
    for (int i = 0; i < set->n_sources; i++) {
        put_series(picture, i, residual, n_of[i]);
    }
    (void)fputc('\n', picture->script);
}

static int count_residuals(const struct picture *picture, enum residual residual)
{
    int n = 0;
    int ignored = 0;
    for (int i = 0; i < picture->validation->set->n_sources; i++) {
        n += count_in(picture, &picture->validation->set->sources[i], residual, &ignored);
    }
    return n;
}

static void put_residual_picture(const struct picture *picture, const char *format)
{
    enum { WIDTH = 1200, PANEL = 360, TITLE = 50 };
    int n = 0;
    for (int residual = 0; residual < (int)N_RESIDUALS; residual++) {
        n += count_residuals(picture, (enum residual)residual) > 0 ? 1 : 0;
    }
    put_terminal(picture->script, format, WIDTH, PANEL * n + TITLE);
    (void)fprintf(picture->script,
                  "set multiplot layout %d,1 title 'Errors by length of the sequence (band: 10 %%; filled: judges, "
                  "hollow: something was fitted to it)' noenhanced\n"
                  "set rmargin 32\nset lmargin 10\n",
                  n);
    for (int residual = 0; residual < (int)N_RESIDUALS; residual++) {
        if (count_residuals(picture, (enum residual)residual) > 0) {
            put_residual_panel(picture, (enum residual)residual);
        }
    }
    (void)fputs("unset multiplot\n", picture->script);
}

/* ---- drawing ------------------------------------------------------------------------------------------------------ */

static bool has_points(const struct picture *picture, enum report_validation_picture which)
{
    int n = which == REPORT_VALIDATION_SCATTER ? count_panels(picture) : 0;
    for (int residual = 0; residual < (int)N_RESIDUALS && which == REPORT_VALIDATION_RESIDUALS; residual++) {
        n += count_residuals(picture, (enum residual)residual);
    }
    return n > 0;
}

static void put_script(const struct picture *picture, enum report_validation_picture which, const char *format)
{
    if (which == REPORT_VALIDATION_SCATTER) {
        put_scatter(picture, format);
    } else {
        put_residual_picture(picture, format);
    }
}

bool report_validation_plot(struct sp_arena *arena, const struct report_validation *validation,
                            enum report_validation_picture which, const char *path, struct sp_error *err)
{
    struct picture picture = {.arena = arena, .validation = validation};
    if (!has_points(&picture, which)) {
        return sp_fail(err, SP_ERROR_INPUT, "%s: no compared row can be drawn", path);
    }
    picture.script = tmpfile();
    if (picture.script == NULL) {
        return sp_fail(err, SP_ERROR_IO, "no temporary file can be made: %s; make room for it", strerror(errno));
    }
    put_script(&picture, which, gantt_format(path));
    bool is_good = gnuplot_draw(arena, picture.script, path, err);
    (void)fclose(picture.script);
    return is_good;
}

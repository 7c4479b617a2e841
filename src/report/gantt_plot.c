/* A Gantt chart through gnuplot: a script with its data, run in a process of its own. */
#include "report/gantt.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* ---- running gnuplot --------------------------------------------------------------------------------------------- */

/* The first line that it complained in, without the caret and the command before it. */
static void complaint(FILE *file, char *line, size_t size)
{
    line[0] = '\0';
    rewind(file);
    char read[256];
    while (fgets(read, (int)sizeof(read), file) != NULL) {
        size_t length = strcspn(read, "\n");
        read[length] = '\0';
        if (strspn(read, " ^\t") < length) {
            (void)snprintf(line, size, "%s", read);
        }
    }
}

static bool fail_missing(struct sp_error *err)
{
    return sp_fail(err, SP_ERROR_IO,
                   "gnuplot is not there to draw the chart: install it (gnuplot-nox on Debian and Ubuntu)");
}

/* Its three streams; -1 for none. */
struct streams {
    int input, output, complaints;
};

static int start(const struct streams *streams, char *const *arguments, pid_t *child)
{
    posix_spawn_file_actions_t actions;
    int code = posix_spawn_file_actions_init(&actions);
    if (code != 0) {
        return code;
    }
    const int files[] = {streams->input, streams->output, streams->complaints};
    for (int i = 0; i < (int)SP_COUNT_OF(files) && code == 0; i++) {
        code = files[i] < 0
                   ? posix_spawn_file_actions_addopen(&actions, i, "/dev/null", i == 0 ? O_RDONLY : O_WRONLY, 0)
                   : posix_spawn_file_actions_adddup2(&actions, files[i], i);
    }
    code = code == 0 ? posix_spawnp(child, arguments[0], &actions, NULL, arguments, environ) : code;
    (void)posix_spawn_file_actions_destroy(&actions);
    return code;
}

static bool wait_for(pid_t child, FILE *complaints, struct sp_error *err)
{
    enum { NOT_FOUND = 127 };
    int status = 0;
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) {
            return sp_fail(err, SP_ERROR_IO, "gnuplot: lost sight of it: %s", strerror(errno));
        }
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        return true;
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_FOUND) {
        return fail_missing(err);
    }
    char line[256];
    complaint(complaints, line, sizeof(line));
    return sp_fail(err, SP_ERROR_IO, "gnuplot could not draw the chart: %s",
                   line[0] == '\0' ? "it said nothing" : line);
}

/* Through a pipe: gnuplot does not look whether what it writes arrives, so that a full disk would leave it a part of a picture. */
static void read_all(int from, FILE *output)
{
    char bytes[4096];
    for (;;) {
        ssize_t n = read(from, bytes, sizeof(bytes));
        if (n > 0) {
            (void)fwrite(bytes, 1, (size_t)n, output);
        } else if (n == 0 || errno != EINTR) {
            return;
        }
    }
}

static bool fail_start(int code, struct sp_error *err)
{
    return code == ENOENT ? fail_missing(err) : sp_fail(err, SP_ERROR_IO, "gnuplot cannot be run: %s", strerror(code));
}

/* script NULL: its version, which nobody reads. */
static bool run_with(FILE *script, FILE *output, FILE *complaints, struct sp_error *err)
{
    char name[] = "gnuplot";
    char version[] = "--version";
    char *arguments[] = {name, script == NULL ? version : NULL, NULL};
    int ends[2] = {-1, -1};
    if (output != NULL &&
        (pipe(ends) != 0 || fcntl(ends[0], F_SETFD, FD_CLOEXEC) < 0 || fcntl(ends[1], F_SETFD, FD_CLOEXEC) < 0)) {
        return fail_start(errno, err);
    }
    const struct streams streams = {script == NULL ? -1 : fileno(script), ends[1], fileno(complaints)};
    pid_t child = 0;
    int code = start(&streams, arguments, &child);
    if (output != NULL) {
        (void)close(ends[1]);
        if (code == 0) {
            read_all(ends[0], output);
        }
        (void)close(ends[0]);
    }
    return code == 0 ? wait_for(child, complaints, err) : fail_start(code, err);
}

static bool fail_temporary(struct sp_error *err)
{
    return sp_fail(err, SP_ERROR_IO,
                   "a temporary file for gnuplot cannot be written: %s; make room (also of ulimit -f), or set TMPDIR",
                   strerror(errno));
}

static bool run(FILE *script, FILE *output, struct sp_error *err)
{
    FILE *complaints = tmpfile();
    if (complaints == NULL) {
        return fail_temporary(err);
    }
    bool is_good = run_with(script, output, complaints, err);
    (void)fclose(complaints);
    return is_good;
}

bool gnuplot_check(struct sp_error *err)
{
    return run(NULL, NULL, err);
}

static bool write_picture(struct sp_arena *arena, const char *bytes, size_t n_bytes, const char *path,
                          struct sp_error *err)
{
    if (n_bytes == 0) {
        return sp_fail(err, SP_ERROR_IO, "gnuplot drew nothing for %s", path);
    }
    struct whole_file *file = whole_file_open(arena, path, err);
    if (file == NULL) {
        return false;
    }
    whole_file_write(file, bytes, n_bytes);
    return whole_file_close(file, err);
}

bool gnuplot_draw(struct sp_arena *arena, FILE *script, const char *path, struct sp_error *err)
{
    char *bytes = NULL;
    size_t n_bytes = 0;
    errno = 0;
    if (fflush(script) != 0 || ferror(script) != 0) {
        errno = errno == 0 ? EIO : errno;
        return fail_temporary(err);
    }
    rewind(script);
    FILE *output = open_memstream(&bytes, &n_bytes);
    if (output == NULL) {
        return fail_start(errno, err);
    }
    bool is_good = run(script, output, err);
    bool is_whole = ferror(output) == 0;
    is_whole = fclose(output) == 0 && is_whole;
    is_good = is_good && (is_whole || fail_start(ENOMEM, err)) && write_picture(arena, bytes, n_bytes, path, err);
    free(bytes);
    return is_good;
}

/* ---- the script -------------------------------------------------------------------------------------------------- */

const char *gantt_format(const char *path)
{
    static const char *const formats[] = {"svg", "png", "pdf", NULL};
    const char *dot = strrchr(path, '.');
    int format = dot == NULL || dot == path ? -1 : sp_index_of(dot + 1, formats);
    return format < 0 ? NULL : formats[format];
}

/* As a string of gnuplot between single quotes. */
static void put_quoted(FILE *script, const char *text)
{
    (void)fputc('\'', script);
    for (; *text != '\0'; text++) {
        (void)fputs(*text == '\'' ? "'" : "", script);
        (void)fputc(*text, script);
    }
    (void)fputc('\'', script);
}

static void put_terminal(FILE *script, const struct gantt_picture *picture, const char *format)
{
    enum { WIDTH = 1280, HEIGHT_A_ROW = 30, HEIGHT_AROUND = 220, DOTS_PER_INCH = 100 };
    int height = HEIGHT_AROUND + HEIGHT_A_ROW * picture->n_rows;
    if (strcmp(format, "svg") == 0) {
        (void)fprintf(script, "set terminal svg size %d,%d font 'sans,14' background '#ffffff' dynamic\n", (int)WIDTH,
                      height);
    } else if (strcmp(format, "png") == 0) {
        (void)fprintf(script, "set terminal pngcairo size %d,%d font 'sans,11' background '#ffffff'\n", (int)WIDTH,
                      height);
    } else {
        (void)fprintf(script, "set terminal pdfcairo size %.2fin,%.2fin font 'sans,10' background '#ffffff'\n",
                      (double)WIDTH / DOTS_PER_INCH, (double)height / DOTS_PER_INCH);
    }
}

/* Milliseconds of what is short, else seconds. */
static double unit_of(const struct gantt_picture *picture)
{
    static const double long_s = 2.0;
    return picture->end_s - picture->begin_s < long_s ? 1e-3 : 1.0;
}

/* The first row stands at the top. */
static void put_axes(FILE *script, const struct gantt_picture *picture)
{
    double unit = unit_of(picture);

    (void)fputs("set encoding utf8\nset title ", script);
    put_quoted(script, picture->title);
    (void)fputs(".\"\\n\".", script);
    put_quoted(script, picture->subtitle);
    (void)fputs(" noenhanced\nset xlabel ", script);
    put_quoted(script, unit < 1.0 ? "time in ms" : "time in s");
    (void)fputs(".\"\\n\".", script);
    put_quoted(script, picture->note);
    (void)fprintf(script, ".\"\\n \" noenhanced\nset xrange [0:%.9g]\nset yrange [%.2f:%.2f]\n",
                  (picture->end_s - picture->begin_s) / unit, picture->n_rows - 0.45, -0.55);
    (void)fputs("set ytics scale 0 (", script);
    for (int row = 0; row < picture->n_rows; row++) {
        (void)fputs(row == 0 ? "" : ", ", script);
        put_quoted(script, picture->labels[row]);
        (void)fprintf(script, " %d", row);
    }
    (void)fputs(") noenhanced\nset xtics nomirror out\nset border 3 lc rgb '#555555'\n"
                "set grid xtics lc rgb '#dddddd' lw 1 back\nset key bmargin center horizontal maxcols 5 samplen 1.5\n"
                "set style fill solid 1.0 noborder\n",
                script);
}

static bool put_data(FILE *script, const struct gantt_picture *picture, enum gantt_kind kind)
{
    static const double bar = 0.76; /* of a row: what its bar fills */
    double unit = unit_of(picture);
    bool is_there = false;
    for (int i = 0; i < picture->n_boxes; i++) {
        const struct gantt_box *box = &picture->boxes[i];
        if (box->kind != kind) {
            continue;
        }
        if (!is_there) {
            (void)fprintf(script, "$kind%d << END\n", (int)kind);
        }
        is_there = true;
        double floor = box->row + bar / 2;
        (void)fprintf(script, "%.9g %.9g %.4f %.4f\n", (box->begin_s - picture->begin_s) / unit,
                      (box->end_s - picture->begin_s) / unit, floor - bar * box->high, floor - bar * box->low);
    }
    (void)fputs(is_there ? "END\n" : "", script);
    return is_there;
}

static void put_script(FILE *script, const struct gantt_picture *picture, const char *format)
{
    bool is_there[N_GANTT_KINDS];
    put_terminal(script, picture, format);
    put_axes(script, picture);
    for (int kind = 0; kind < (int)N_GANTT_KINDS; kind++) {
        is_there[kind] = put_data(script, picture, (enum gantt_kind)kind);
    }
    const char *gap = "plot ";
    for (int kind = 0; kind < (int)N_GANTT_KINDS; kind++) {
        if (is_there[kind]) {
            (void)fprintf(script,
                          "%s$kind%d using (($1+$2)/2):(($3+$4)/2):1:2:3:4 with boxxyerror lc rgb '%s' title '%s'", gap,
                          kind, gantt_styles[kind].color, gantt_styles[kind].name);
            gap = ", ";
        }
    }
    (void)fputc('\n', script);
}

/* ---- the picture ------------------------------------------------------------------------------------------------- */

bool gantt_plot(struct sp_arena *arena, const struct gantt_picture *picture, const char *path, struct sp_error *err)
{
    FILE *script = tmpfile();
    if (script == NULL) {
        return fail_temporary(err);
    }
    put_script(script, picture, gantt_format(path));
    bool is_good = gnuplot_draw(arena, script, path, err);
    (void)fclose(script);
    return is_good;
}

#include "cmd/sweep.h"

#include <math.h>
#include <string.h>
#include <time.h>

enum { BAR_WIDTH = 20, LINE_WIDTH = 78, LINE_ROOM = 160 };

/* A short sweep shows nothing; a long one is drawn a few times a second. */
static const double FIRST_S = 0.5;
static const double EVERY_S = 0.1;

double progress_clock_s(void)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void progress_open(struct progress *progress, bool is_terminal, int64_t n_total, int64_t n_before)
{
    double now_s = progress_clock_s();
    *progress = (struct progress){
        .is_shown = is_terminal, .n_total = n_total, .n_before = n_before, .begun_s = now_s, .drawn_s = now_s};
}

enum { STEP_PARTS = 1000, PARTS_A_PERCENT = 10 };

void progress_open_step(struct progress *progress, bool is_terminal)
{
    progress_open(progress, is_terminal, STEP_PARTS, 0);
    progress->is_of_step = true;
}

void progress_show_share(struct progress *progress, double done_frac)
{
    progress_show(progress, (int64_t)(done_frac * STEP_PARTS));
}

/* "12 s", "3 min 20 s", "2 h 5 min": two units at most. */
static void time_text(double seconds, char *text, size_t size)
{
    long long whole = llround(seconds);
    if (whole < 60) {
        (void)snprintf(text, size, "%lld s", whole);
    } else if (whole < 3600) {
        (void)snprintf(text, size, "%lld min %lld s", whole / 60, whole % 60);
    } else {
        (void)snprintf(text, size, "%lld h %lld min", whole / 3600, whole % 3600 / 60);
    }
}

static void draw(const struct progress *progress, int64_t n_done, double elapsed_s)
{
    double rows_per_s = (double)(n_done - progress->n_before) / elapsed_s;
    double done_frac = (double)n_done / (double)progress->n_total;
    char bar[BAR_WIDTH + 1];
    int filled = (int)(done_frac * BAR_WIDTH);
    memset(bar, ' ', BAR_WIDTH);
    memset(bar, '#', (size_t)filled);
    bar[BAR_WIDTH] = '\0';
    char left[32] = "";
    if (rows_per_s > 0.0) {
        time_text((double)(progress->n_total - n_done) / rows_per_s, left, sizeof(left));
    }
    char line[LINE_ROOM];
    const char *before_left = left[0] == '\0' ? "" : ", left: ";
    if (progress->is_of_step) {
        (void)snprintf(line, sizeof(line), "[%s] %lld %% of the step simulated%s%s", bar,
                       (long long)n_done / PARTS_A_PERCENT, before_left, left);
    } else if (progress->note != NULL) {
        (void)snprintf(line, sizeof(line), "[%s] %lld of %lld%s%s, %s", bar, (long long)n_done,
                       (long long)progress->n_total, before_left, left, progress->note);
    } else {
        (void)snprintf(line, sizeof(line), "[%s] %lld of %lld rows, %.3g/s%s%s", bar, (long long)n_done,
                       (long long)progress->n_total, rows_per_s, before_left, left);
    }
    (void)fprintf(stderr, "\r%-*.*s", (int)LINE_WIDTH, (int)LINE_WIDTH, line);
}

void progress_show(struct progress *progress, int64_t n_done)
{
    if (!progress->is_shown) {
        return;
    }
    double now_s = progress_clock_s();
    double wait_s = progress->drawn_s > progress->begun_s ? EVERY_S : FIRST_S;
    if (now_s - progress->drawn_s >= wait_s) {
        draw(progress, n_done, now_s - progress->begun_s);
        progress->drawn_s = now_s;
    }
}

void progress_clear(struct progress *progress)
{
    if (progress->is_shown && progress->drawn_s > progress->begun_s) {
        (void)fprintf(stderr, "\r%*s\r", (int)LINE_WIDTH, "");
    }
}

void progress_close(struct progress *progress)
{
    progress_clear(progress);
    progress->is_shown = false;
}

/* A sweep over ranks: rank 0 hands out points in chunks and keeps the rows, the others fill them. The order in which
 * rows come back decides nothing: rows have their points, and of several failures that of the first point counts, as in
 * one process. */
#include "cmd/sweep.h"

#include "cmd/ranks.h"

#include <stdlib.h>
#include <string.h>

/* What messages are. From rank 0: */
enum {
    SAYS_BEGIN = 'W',   /* run the command, as far as its sweep */
    SAYS_POINTS = 'P',  /* "12 13 17": a chunk */
    SAYS_STOP = 'S',    /* of this sweep there is no more to do */
    SAYS_DISMISS = 'D', /* of this program neither */
    /* To rank 0: */
    SAYS_IDLE = 'I',
    SAYS_ROW = 'R',     /* "12\nJSON" */
    SAYS_FAILED = 'F',  /* "12 KIND\nRULE\nTEXT" */
    SAYS_SIGNAL = 'T',  /* a signal asks this rank to end */
    SAYS_STOPPED = 'B', /* the answer to SAYS_STOP, and the last message of a sweep */
    SAYS_LOST = 'E'     /* in its stead: this rank did not even come to the sweep; as SAYS_FAILED */
};

/* Chunks shrink towards the end, so that the ranks end together. */
enum { CHUNK_MAX = 64, CHUNKS_LEFT_PER_RANK = 4, DECIMAL = 10 };

/* A rank that has not begun has no point; what is wrong there comes before any row. */
static const int64_t BEFORE_ALL = -1;

static void send_failure(char kind, int64_t point, const struct sp_error *err)
{
    struct sp_arena *arena = sp_arena_open();
    ranks_send(0, kind, sp_format(arena, "%lld %d\n%s\n%s", (long long)point, (int)err->kind, err->rule, err->text));
    sp_arena_close(arena);
}

static void copy_text(char *to, size_t size, const char *from, size_t length)
{
    length = length < size ? length : size - 1;
    memcpy(to, from, length);
    to[length] = '\0';
}

static int64_t read_failure(const char *text, struct sp_error *err)
{
    char *at = NULL;
    int64_t point = strtoll(text, &at, DECIMAL);
    err->kind = (enum sp_error_kind)strtol(at, &at, DECIMAL);
    at += *at == '\n' ? 1 : 0;
    size_t length = strcspn(at, "\n");
    copy_text(err->rule, sizeof(err->rule), at, length);
    at += length + (at[length] == '\n' ? 1 : 0);
    copy_text(err->text, sizeof(err->text), at, strlen(at));
    return point;
}

/* ---- rank 0 ----------------------------------------------------------------------------------------------------- */

struct worker {
    int64_t first_point; /* of its chunk */
    bool is_told;        /* to stop */
};

struct hand_out {
    struct sweep_run *run;
    struct worker *workers; /* by rank */
    int n_ranks;
    int n_working;      /* that have not stopped */
    int64_t next_point; /* every point before it is stored or handed out */
    int64_t n_left;     /* points to hand out */
    bool is_stopping;
    bool has_failed;
    int64_t failed_point;
    struct sp_error *err;
};

static void tell_to_stop(struct hand_out *hand_out, int rank)
{
    if (!hand_out->workers[rank].is_told) {
        hand_out->workers[rank].is_told = true;
        ranks_send(rank, SAYS_STOP, "");
    }
}

/* Who works at earlier points goes on: one of those may fail too, and is then the first. */
static void note_failure(struct hand_out *hand_out, int64_t point, const struct sp_error *err)
{
    if (!hand_out->has_failed || point < hand_out->failed_point) {
        hand_out->has_failed = true;
        hand_out->failed_point = point;
        *hand_out->err = *err;
    }
    hand_out->n_left = 0;
    for (int rank = 1; rank < hand_out->n_ranks; rank++) {
        if (hand_out->workers[rank].first_point > hand_out->failed_point) {
            tell_to_stop(hand_out, rank);
        }
    }
}

/* mpirun kills a second after it asked, so what is done goes to the store before the others have answered. */
static void stop_all(struct hand_out *hand_out)
{
    struct sp_error err = {.kind = SP_ERROR_NONE};
    hand_out->is_stopping = true;
    hand_out->n_left = 0;
    if (!sweep_rows_flush(&hand_out->run->rows, &err)) {
        note_failure(hand_out, BEFORE_ALL, &err);
    }
    for (int rank = 1; rank < hand_out->n_ranks; rank++) {
        tell_to_stop(hand_out, rank);
    }
}

static void give_chunk(struct hand_out *hand_out, int rank, struct sp_arena *scratch)
{
    int64_t fair = hand_out->n_left / (CHUNKS_LEFT_PER_RANK * (int64_t)(hand_out->n_ranks - 1));
    int64_t n_wanted = fair < 1 ? 1 : fair;
    n_wanted = n_wanted > CHUNK_MAX ? CHUNK_MAX : n_wanted;
    struct sp_texts chunk = {.arena = scratch};
    while ((int64_t)chunk.count < n_wanted && hand_out->n_left > 0) {
        int64_t point = hand_out->next_point++;
        if (!hand_out->run->rows.has[point]) {
            hand_out->workers[rank].first_point = chunk.count == 0 ? point : hand_out->workers[rank].first_point;
            sp_texts_add(&chunk, "%lld", (long long)point);
            hand_out->n_left--;
        }
    }
    ranks_send(rank, SAYS_POINTS, sp_join(scratch, chunk.items, chunk.count, " "));
}

static void take_row(struct hand_out *hand_out, const char *text)
{
    char *at = NULL;
    int64_t point = strtoll(text, &at, DECIMAL);
    struct sp_error err = {.kind = SP_ERROR_NONE};
    if (!sweep_rows_add(&hand_out->run->rows, point, at + 1, &err)) {
        note_failure(hand_out, BEFORE_ALL, &err); /* of the store: no other row can be kept either */
    }
}

static void take_failure(struct hand_out *hand_out, const char *text)
{
    struct sp_error err = {.kind = SP_ERROR_NONE};
    int64_t point = read_failure(text, &err);
    note_failure(hand_out, point, &err);
}

static void take_message(struct hand_out *hand_out, const struct ranks_message *message, struct sp_arena *scratch)
{
    switch (message->kind) {
    case SAYS_IDLE:
        if (hand_out->n_left > 0) {
            give_chunk(hand_out, message->from, scratch);
        } else {
            tell_to_stop(hand_out, message->from);
        }
        break;
    case SAYS_ROW:
        take_row(hand_out, message->text);
        break;
    case SAYS_FAILED:
        take_failure(hand_out, message->text);
        break;
    case SAYS_SIGNAL:
        hand_out->run->is_stopped = true;
        break;
    case SAYS_LOST:
        hand_out->workers[message->from].is_told = true;
        hand_out->n_working--;
        take_failure(hand_out, message->text);
        break;
    default: /* SAYS_STOPPED */
        hand_out->n_working--;
        break;
    }
}

static void work_with_all(struct hand_out *hand_out, struct progress *progress)
{
    struct sp_arena *scratch = hand_out->run->scratch;
    while (hand_out->n_working > 0) {
        struct ranks_message message;
        struct sp_arena_mark mark = sp_arena_mark(scratch);
        if (ranks_receive(scratch, &message)) {
            take_message(hand_out, &message, scratch);
        } else {
            ranks_pause();
        }
        sp_arena_rewind(scratch, mark);
        progress_show(progress, hand_out->run->rows.n_has);
        hand_out->run->is_stopped = hand_out->run->is_stopped || interrupt_is_asked();
        if (hand_out->run->is_stopped && !hand_out->is_stopping) {
            stop_all(hand_out);
        }
    }
}

bool sweep_hand_out(struct sweep_run *run, struct progress *progress, struct sp_error *err)
{
    struct hand_out hand_out = {.run = run,
                                .n_ranks = ranks_size(),
                                .n_working = ranks_size() - 1,
                                .n_left = run->points.n_points - run->rows.n_has,
                                .err = err};
    hand_out.workers = sp_arena_array(run->sweep->context->arena, (size_t)hand_out.n_ranks, sizeof(*hand_out.workers));
    for (int rank = 1; rank < hand_out.n_ranks; rank++) {
        ranks_send(rank, SAYS_BEGIN, "");
    }
    work_with_all(&hand_out, progress);
    return !hand_out.has_failed;
}

void sweep_dismiss(void)
{
    for (int rank = 1; rank < ranks_size(); rank++) {
        ranks_send(rank, SAYS_DISMISS, "");
    }
}

/* ---- the others ------------------------------------------------------------------------------------------------- */

/* False: it failed, and rank 0 knows. */
static bool compute_point(struct sweep_run *run, int64_t point)
{
    struct sp_error err = {.kind = SP_ERROR_NONE};
    const char *json = NULL;
    if (!sweep_fill(run, point, &json, &err)) {
        send_failure(SAYS_FAILED, point, &err);
        return false;
    }
    ranks_send(0, SAYS_ROW, sp_format(run->scratch, "%lld\n%s", (long long)point, json));
    return true;
}

/* Between two rows: has somebody said to stop? */
static bool is_told_to_stop(struct sweep_run *run, struct ranks_message *message)
{
    if (!run->is_stopped && interrupt_is_asked()) {
        run->is_stopped = true;
        ranks_send(0, SAYS_SIGNAL, "");
    }
    return run->is_stopped || ranks_receive(run->scratch, message); /* nothing else comes during a chunk */
}

static void compute_chunk(struct sweep_run *run, struct ranks_message *message)
{
    const char *at = message->text;
    char *end = NULL;
    bool is_good = true;
    int64_t point = strtoll(at, &end, DECIMAL);
    while (end != at && is_good && !is_told_to_stop(run, message)) {
        struct sp_arena_mark mark = sp_arena_mark(run->scratch);
        is_good = compute_point(run, point);
        sp_arena_rewind(run->scratch, mark);
        at = end;
        point = strtoll(at, &end, DECIMAL);
    }
    if (message->kind != SAYS_STOP) {
        ranks_send(0, SAYS_IDLE, "");
    }
}

bool sweep_compute(struct sweep_run *run, struct sp_error *err)
{
    (void)err; /* failures go to rank 0 */
    struct sp_arena *mailbox = sp_arena_open();
    struct ranks_message message = {.kind = SAYS_IDLE};
    interrupt_watch();
    ranks_send(0, SAYS_IDLE, "");
    while (message.kind != SAYS_STOP) {
        struct sp_arena_mark mark = sp_arena_mark(mailbox);
        if (!ranks_receive(mailbox, &message)) {
            ranks_pause();
        } else if (message.kind == SAYS_POINTS) {
            compute_chunk(run, &message);
        }
        sp_arena_rewind(mailbox, mark);
    }
    ranks_send(0, SAYS_STOPPED, "");
    sp_arena_close(mailbox);
    return true;
}

void sweep_serve(sweep_command command, void *user)
{
    struct sp_arena *mailbox = sp_arena_open();
    struct ranks_message message = {.kind = SAYS_IDLE};
    while (message.kind != SAYS_DISMISS) {
        struct sp_error err = {.kind = SP_ERROR_NONE};
        if (!ranks_receive(mailbox, &message)) {
            ranks_pause();
        } else if (message.kind == SAYS_BEGIN && !command(user, &err)) {
            send_failure(SAYS_LOST, BEFORE_ALL, &err);
        }
    }
    sp_arena_close(mailbox);
}

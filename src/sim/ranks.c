/* Ranks: streams of operations, each in order, each operation after what it waits for. */
#include "sim/sim_internal.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* ---- where a stream stands -------------------------------------------------------------------------------------- */

static const struct program_entry *entry_at(const struct rank_state *rank, int32_t entry)
{
    return &rank->program->entries[entry];
}

static const struct run_ops *ops_at(const struct rank_state *rank, int32_t entry)
{
    return &rank->segments[entry_at(rank, entry)->segment];
}

const struct program_op *rank_op(const struct simulator *sim, int32_t rank, int stream)
{
    const struct rank_state *state = &sim->ranks[rank];
    const struct stream_state *at = &state->streams[stream];
    const struct run_ops *ops = ops_at(state, at->entry);
    return &ops->ops->ops[ops->by_stream[stream][at->ordinal]];
}

/* Moves on to the next entry that has operations on this stream; memory follows the kernels. */
static void settle_cursor(struct simulator *sim, int32_t rank, int stream)
{
    struct rank_state *state = &sim->ranks[rank];
    struct stream_state *at = &state->streams[stream];
    while (at->entry < state->program->n_entries && at->ordinal >= ops_at(state, at->entry)->ops->n_on_stream[stream]) {
        if (stream == STREAM_KERNELS) {
            memory_leave(sim, rank, entry_at(state, at->entry));
        }
        at->entry++;
        at->ordinal = 0;
        if (stream == STREAM_KERNELS && at->entry < state->program->n_entries) {
            memory_enter(sim, rank, entry_at(state, at->entry));
        }
    }
    at->since_ps = sim->now_ps;
    at->status = at->entry < state->program->n_entries ? STREAM_BLOCKED : STREAM_OVER;
}

static bool is_over(const struct rank_state *state)
{
    for (int i = 0; i < state->n_used; i++) {
        if (state->streams[state->used[i]].status != STREAM_OVER) {
            return false;
        }
    }
    return true;
}

/* ---- waits ------------------------------------------------------------------------------------------------------ */

/* Whether a stream has come past an operation, or (ordinal NONE) past everything before an entry. */
static bool has_passed(const struct rank_state *state, int stream, int32_t entry, int32_t ordinal)
{
    const struct stream_state *at = &state->streams[stream];
    if (at->status == STREAM_OVER || at->entry > entry) {
        return true;
    }
    return at->entry == entry && at->ordinal > ordinal;
}

static bool is_met(const struct rank_state *state, int32_t entry, const struct program_wait *wait)
{
    const struct program_entry *at = entry_at(state, entry);
    if (wait->back >= 0) {
        return has_passed(state, wait->stream, entry - wait->back, wait->ordinal);
    }
    int32_t distance = wait->back == PROGRAM_WAIT_GATHER ? at->gather_back : at->fetch_back;
    return distance == 0 || has_passed(state, wait->stream, entry - distance + 1, NONE);
}

static bool is_ready(const struct simulator *sim, int32_t rank, int stream)
{
    const struct rank_state *state = &sim->ranks[rank];
    const struct program_op *op = rank_op(sim, rank, stream);
    for (int i = 0; i < op->n_waits; i++) {
        if (!is_met(state, state->streams[stream].entry, &op->waits[i])) {
            return false;
        }
    }
    if (op->kind == OP_FROM_STAGE) {
        const struct mailbox *box = &state->mailboxes[entry_at(state, state->streams[stream].entry)->key];
        return box->arrived > box->taken;
    }
    return true;
}

/* ---- kernels ---------------------------------------------------------------------------------------------------- */

/* x of exp(-x): from a hash of seed, rank and count, so that a run can be repeated. */
static double drawn(const struct simulator *sim, int32_t rank)
{
    const uint64_t key[] = {sim->options->seed, (uint64_t)sim->cluster.folded.rank_first[rank],
                            sim->ranks[rank].n_kernels};
    uint64_t hash = sp_fnv1a(SP_FNV1A_BASIS, key, sizeof key);
    hash ^= hash >> 32;
    hash *= UINT64_C(0xd6e8feb86659fd93); /* spreads the low bits of FNV over the high ones (Degski's multiplier) */
    hash ^= hash >> 32;
    double u = ((double)(hash >> 11) + 0.5) * 0x1p-53; /* in (0, 1) */
    return -log(u);
}

/* Below it a kernel stands still: what sums of shares leave of none. */
static const double LEAST_RATE = 1e-9;

static void post_kernel(struct simulator *sim, int32_t rank)
{
    struct rank_state *state = &sim->ranks[rank];
    state->kernel_at_ps = sim->now_ps;
    state->kernel_rate = 1 - state->sms_taken > LEAST_RATE ? 1 - state->sms_taken : 0;
    state->kernel_version++;
    if (state->kernel_rate > 0) {
        int64_t end = sim->now_ps + (int64_t)ceil(state->kernel_left_ps / state->kernel_rate);
        event_post(sim->queue, end,
                   (struct event){EVENT_KERNEL, (uint32_t)rank, state->kernel_version & UINT32_C(0xfffffff)});
    }
}

static void start_kernel(struct simulator *sim, int32_t rank, const struct program_op *op)
{
    struct rank_state *state = &sim->ranks[rank];
    double stretch = 1 / state->speed;
    if (sim->options->jitter_frac > 0) {
        stretch *= 1 + sim->options->jitter_frac * drawn(sim, rank);
    }
    state->n_kernels++;
    state->has_kernel = true;
    state->kernel_left_ps = nearbyint(op->time_s * stretch * PS_PER_S);
    post_kernel(sim, rank);
}

void rank_hold_sms(struct simulator *sim, int32_t rank, double share)
{
    struct rank_state *state = &sim->ranks[rank];
    if (share > 0 || share < 0) {
        if (state->has_kernel) {
            state->kernel_left_ps -= (double)(sim->now_ps - state->kernel_at_ps) * state->kernel_rate;
            state->kernel_left_ps = fmax(state->kernel_left_ps, 0);
        }
        state->sms_taken += share;
        state->sms_taken = state->sms_taken < LEAST_RATE ? 0 : state->sms_taken;
        if (state->has_kernel) {
            post_kernel(sim, rank);
        }
    }
}

void rank_kernel_end(struct simulator *sim, int32_t rank, uint32_t version)
{
    if ((sim->ranks[rank].kernel_version & UINT32_C(0xfffffff)) == version) {
        sim->ranks[rank].has_kernel = false;
        rank_end(sim, rank, STREAM_KERNELS);
    }
}

/* ---- begin and end of an operation ------------------------------------------------------------------------------ */

/* What began last of what this operation waited for: its own stream, or the stream that ended something just now. */
static void take_path(struct simulator *sim, int32_t rank, int stream)
{
    struct rank_state *state = &sim->ranks[rank];
    bool is_own = state->streams[stream].since_ps == sim->now_ps || state->last_stream == stream;
    if (!is_own && state->last_stream != NONE) {
        state->paths[stream] = state->paths[state->last_stream];
    }
}

static void take_message(struct simulator *sim, int32_t rank)
{
    struct rank_state *state = &sim->ranks[rank];
    const struct stream_state *at = &state->streams[STREAM_KERNELS];
    struct mailbox *box = &state->mailboxes[entry_at(state, at->entry)->key];
    box->taken++;
    if (at->since_ps < sim->now_ps) {
        state->paths[STREAM_KERNELS] = box->path;
    }
}

static void begin(struct simulator *sim, int32_t rank, int stream)
{
    struct rank_state *state = &sim->ranks[rank];
    struct stream_state *at = &state->streams[stream];
    const struct program_op *op = rank_op(sim, rank, stream);
    const struct program_entry *entry = entry_at(state, at->entry);
    int64_t blocked_ps = at->since_ps;
    take_path(sim, rank, stream);
    if (stream == STREAM_KERNELS) {
        record_wait(sim, rank, blocked_ps);
        memory_at(sim, rank, entry, op);
    }
    if (op->kind == OP_FROM_STAGE) {
        take_message(sim, rank);
    }
    at->status = STREAM_RUNNING;
    at->since_ps = at->transfer_ps = sim->now_ps;
    switch (op->kind) {
    case OP_KERNEL:
        if (op->time_s > 0) {
            sim->n_tasks++;
            start_kernel(sim, rank, op);
        } else {
            rank_end(sim, rank, stream);
        }
        break;
    case OP_COLLECTIVE:
        sim->n_tasks++;
        collective_come(sim, rank, stream, op);
        break;
    case OP_SEND:
        sim->n_tasks++;
        hop_come(sim, rank, stream, op);
        break;
    case OP_RECEIVE:
        hop_come(sim, rank, stream, op);
        break;
    case OP_TO_STAGE:
        sim->n_tasks++;
        stage_send(sim, rank, op, entry);
        break;
    case OP_FROM_STAGE:
        rank_end(sim, rank, stream);
        break;
    case OP_HOST_COPY:
        sim->n_tasks++;
        host_copy(sim, rank, stream, op);
        break;
    }
}

void rank_end(struct simulator *sim, int32_t rank, int stream)
{
    struct rank_state *state = &sim->ranks[rank];
    struct stream_state *at = &state->streams[stream];
    const struct program_op *op = rank_op(sim, rank, stream);
    assert(at->status == STREAM_RUNNING);
    if (op->kind == OP_KERNEL) {
        record_kernel(sim, rank, op, at->since_ps);
    } else if (op->kind != OP_FROM_STAGE) {
        record_transfer(sim, rank, stream, op);
    }
    state->last_stream = stream;
    at->ordinal++;
    settle_cursor(sim, rank, stream);
    if (at->status == STREAM_OVER && is_over(state)) {
        state->end_ps = sim->now_ps;
        sim->n_over++;
        sim->last_rank = rank;
    }
    rank_wake(sim, rank);
}

void rank_wake(struct simulator *sim, int32_t rank)
{
    if (!sim->ranks[rank].is_queued) {
        sim->ranks[rank].is_queued = true;
        sim->ready[sim->n_ready++] = rank;
    }
}

static void pump(struct simulator *sim, int32_t rank)
{
    struct rank_state *state = &sim->ranks[rank];
    for (bool goes_on = true; goes_on;) {
        goes_on = false;
        for (int i = 0; i < state->n_used; i++) {
            int stream = state->used[i];
            if (state->streams[stream].status == STREAM_BLOCKED && is_ready(sim, rank, stream)) {
                begin(sim, rank, stream);
                goes_on = true;
            }
        }
    }
}

void ranks_pump(struct simulator *sim)
{
    while (sim->n_ready > 0) {
        int32_t rank = sim->ready[--sim->n_ready];
        sim->ranks[rank].is_queued = false;
        pump(sim, rank);
    }
}

/* ---- opening ---------------------------------------------------------------------------------------------------- */

static struct run_ops index_ops(struct simulator *sim, const struct program_ops *ops)
{
    struct run_ops run = {.ops = ops};
    int32_t filled[N_PROGRAM_STREAMS] = {0};
    for (int s = 0; s < N_PROGRAM_STREAMS; s++) {
        run.by_stream[s] = sp_arena_array(sim->arena, (size_t)ops->n_on_stream[s] + 1, sizeof(int32_t));
    }
    for (int i = 0; i < ops->n; i++) {
        int s = (int)ops->ops[i].stream;
        run.by_stream[s][filled[s]++] = i;
    }
    return run;
}

/* Indexes of each segment's operations, for one position of the sp group. */
static struct run_ops *index_segments(struct simulator *sim, int32_t position)
{
    const struct step_program *program = &sim->program;
    struct run_ops *segments = sp_arena_array(sim->arena, (size_t)program->n_segments + 1, sizeof segments[0]);
    for (int i = 0; i < program->n_segments; i++) {
        const struct program_segment *segment = &program->segments[i];
        const struct program_ops *ops = &segment->ops[segment->is_by_position ? position : 0];
        int same = 0;
        while (same < i && segments[same].ops != ops) {
            same++;
        }
        segments[i] = same < i ? segments[same] : index_ops(sim, ops);
    }
    return segments;
}

static void open_rank(struct simulator *sim, int32_t rank)
{
    struct rank_state *state = &sim->ranks[rank];
    bool is_used[N_PROGRAM_STREAMS] = {[STREAM_KERNELS] = true};
    for (int64_t i = 0; i < state->program->n_entries; i++) {
        for (int s = 0; s < N_PROGRAM_STREAMS; s++) {
            is_used[s] = is_used[s] || ops_at(state, (int32_t)i)->ops->n_on_stream[s] > 0;
        }
    }
    int keys = 2 * schedule_chunks(&sim->question->layout);
    state->mailboxes = sp_arena_array(sim->arena, (size_t)keys, sizeof state->mailboxes[0]);
    state->gradient_bytes = state->program->gradient_bytes;
    state->saved_cap_bytes = (double)INFINITY;
    state->last_stream = NONE;
    memory_enter(sim, rank, entry_at(state, 0));
    for (int s = 0; s < N_PROGRAM_STREAMS; s++) {
        if (is_used[s]) {
            state->used[state->n_used++] = (uint8_t)s;
            settle_cursor(sim, rank, s);
        }
    }
}

void sim_ranks_open(struct simulator *sim)
{
    size_t n = (size_t)sim->cluster.n_classes;
    size_t sp = (size_t)sim->question->layout.sp;
    sim->ready = sp_arena_array(sim->arena, n, sizeof sim->ready[0]);
    struct run_ops **by_position = sp_arena_array(sim->arena, sp, sizeof(struct run_ops *));
    for (size_t c = 0; c < n; c++) {
        int32_t position = sim->program.is_by_position ? sim->cluster.position[c] : 0;
        if (by_position[position] == NULL) {
            by_position[position] = index_segments(sim, position);
        }
        sim->ranks[c].program = &sim->program.stages[sim->cluster.stage[c]];
        sim->ranks[c].segments = by_position[position];
        open_rank(sim, (int32_t)c);
        rank_wake(sim, (int32_t)c);
    }
}

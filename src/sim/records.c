/* What a run leaves: busy and waiting times with their causes, spans, the critical path, links. */
#include "sim/sim_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const sim_wait_names[] = {"tp", "sp", "dp", "pp", "ep", "peer", "stage", "offload", "host", "end", NULL};

/* ---- waits ------------------------------------------------------------------------------------------------------ */

static enum sim_wait wait_of_item(enum time_item item)
{
    switch (item) {
    case TIME_TP_EXPOSED:
        return SIM_WAIT_TP;
    case TIME_SP_EXPOSED:
        return SIM_WAIT_SP;
    case TIME_DP_EXPOSED:
        return SIM_WAIT_DP;
    case TIME_PP_EXPOSED:
        return SIM_WAIT_PP;
    case TIME_EP_EXPOSED:
        return SIM_WAIT_EP;
    case TIME_OFFLOAD_EXPOSED:
        return SIM_WAIT_OFFLOAD;
    case TIME_OTHER:
        return SIM_WAIT_HOST;
    case TIME_OPTIMIZER:
    case TIME_ATTENTION:
    case TIME_GEMM:
    case TIME_ELEMENTWISE:
    case TIME_BUBBLE:
    case TIME_IMBALANCE:
    case N_TIME_ITEMS:
        break;
    }
    return SIM_WAIT_PEER;
}

/* Of a stretch of waiting, what came before a transfer began was for those who take part in it. */
static void split_wait(struct rank_state *state, int64_t from_ps, int64_t to_ps, int64_t transfer_ps,
                       const enum sim_wait waits[2])
{
    int64_t begun = transfer_ps > from_ps ? (transfer_ps < to_ps ? transfer_ps : to_ps) : from_ps;
    state->waits_ps[waits[0]] += (double)(begun - from_ps);
    state->waits_ps[waits[1]] += (double)(to_ps - begun);
}

void record_wait(struct simulator *sim, int32_t rank, int64_t from_ps)
{
    struct rank_state *state = &sim->ranks[rank];
    if (from_ps >= sim->now_ps) {
        return;
    }
    const struct stream_state *kernels = &state->streams[STREAM_KERNELS];
    const struct program_op *op = rank_op(sim, rank, STREAM_KERNELS);
    if (op->kind == OP_FROM_STAGE) {
        const struct mailbox *box = &state->mailboxes[state->program->entries[kernels->entry].key];
        split_wait(state, from_ps, sim->now_ps, box->sent_ps, (enum sim_wait[]){SIM_WAIT_STAGE, SIM_WAIT_PP});
        return;
    }
    /* the stream that ended something last is what held this one up */
    int stream = state->last_stream;
    enum sim_wait cause = stream == STREAM_SHARDS                                  ? SIM_WAIT_DP
                          : stream == STREAM_TO_HOST || stream == STREAM_FROM_HOST ? SIM_WAIT_OFFLOAD
                                                                                   : SIM_WAIT_SP;
    split_wait(state, from_ps, sim->now_ps, state->streams[stream].transfer_ps,
               (enum sim_wait[]){SIM_WAIT_PEER, cause});
}

/* ---- spans ------------------------------------------------------------------------------------------------------ */

static void emit_span(struct simulator *sim, int32_t rank, int stream, const struct program_op *op, int64_t start_ps)
{
    const struct sim_sink *sink = sim->options->sink;
    if (sink == NULL || sim->now_ps <= start_ps) {
        return;
    }
    const struct rank_state *state = &sim->ranks[rank];
    const struct stream_state *at = &state->streams[stream];
    const struct program_entry *entry = &state->program->entries[at->entry];
    bool is_transfer = op->kind != OP_KERNEL;
    double alone = is_transfer ? at->alone_ps : 0;
    double delayed = is_transfer ? fmax((double)(sim->now_ps - at->transfer_ps) - alone, 0) : 0;
    struct sim_span span = {.rank = sim->cluster.folded.rank_first[rank],
                            .stream = (enum program_stream)stream,
                            .name = op->name,
                            .item = op->item,
                            .start_ps = start_ps,
                            .duration_ps = sim->now_ps - start_ps,
                            .micro_batch = entry->micro_batch,
                            .layer = entry->layer,
                            .pass = op->pass,
                            .bytes = op->transfer >= 0 ? sim->program.transfers[op->transfer].sent_bytes : op->bytes,
                            .waited_ps = is_transfer ? at->transfer_ps - start_ps : 0,
                            .delayed_ps = delayed < LEAST_DELAY_PS ? 0 : (int64_t)delayed};
    sink->span(sink->context, &span);
}

void record_kernel(struct simulator *sim, int32_t rank, const struct program_op *op, int64_t start_ps)
{
    struct rank_state *state = &sim->ranks[rank];
    double time_ps = (double)(sim->now_ps - start_ps);
    if (op->item == TIME_OTHER) {
        state->waits_ps[SIM_WAIT_HOST] += time_ps;
    } else {
        state->busy_ps += time_ps;
    }
    state->paths[op->stream].time_ps[op->item] += time_ps;
    emit_span(sim, rank, (int)op->stream, op, start_ps);
}

static void count_transfer(struct rank_state *state, enum axis axis, double waited, double taken, double delayed)
{
    state->waited_ps[axis] += waited;
    state->transfer_ps[axis] += taken;
    state->delayed_ps[axis] += delayed;
}

void record_transfer(struct simulator *sim, int32_t rank, int stream, const struct program_op *op)
{
    struct rank_state *state = &sim->ranks[rank];
    const struct stream_state *at = &state->streams[stream];
    double taken = (double)(sim->now_ps - at->transfer_ps);
    double delayed = fmax(taken - at->alone_ps, 0);
    delayed = delayed < 1e-9 * taken + LEAST_DELAY_PS ? 0 : delayed;
    state->paths[stream].time_ps[op->item] += taken;
    state->paths[stream].delayed_ps[op->item] += delayed;
    if (stream == STREAM_KERNELS) {
        /* all ranks meet at the end of the step: others are still at their part of the pipeline */
        bool is_drain = sim->question->layout.pp > 1 && op->kind == OP_COLLECTIVE &&
                        sim->program.transfers[op->transfer].group == RANKS_ALL;
        split_wait(state, at->since_ps, sim->now_ps, at->transfer_ps,
                   (enum sim_wait[]){is_drain ? SIM_WAIT_STAGE : SIM_WAIT_PEER, wait_of_item(op->item)});
    }
    if (op->transfer >= 0 && op->kind != OP_RECEIVE) {
        count_transfer(state, sim->program.transfers[op->transfer].axis, (double)(at->transfer_ps - at->since_ps),
                       taken, delayed);
    }
    emit_span(sim, rank, stream, op, at->since_ps);
}

/* ---- result ----------------------------------------------------------------------------------------------------- */

static void collect_ranks(struct simulator *sim, struct sim_result *result)
{
    int n = sim->cluster.n_classes;
    result->n_ranks = n;
    result->ranks = sp_arena_array(sim->arena, (size_t)n, sizeof result->ranks[0]);
    for (int c = 0; c < n; c++) {
        struct rank_state *state = &sim->ranks[c];
        struct sim_rank *out = &result->ranks[c];
        double count = (double)sim->cluster.folded.rank_count[c];
        state->waits_ps[SIM_WAIT_END] += (double)(sim->end_ps - state->end_ps);
        *out = (struct sim_rank){.rank = sim->cluster.folded.rank_first[c],
                                 .count = sim->cluster.folded.rank_count[c],
                                 .stage = sim->cluster.stage[c],
                                 .busy_s = state->busy_ps / PS_PER_S,
                                 .peak_bytes = state->peak_bytes};
        for (int w = 0; w < N_SIM_WAITS; w++) {
            out->waits_s[w] = state->waits_ps[w] / PS_PER_S;
        }
        result->sent_bytes += count * state->sent_bytes;
        result->received_bytes += count * state->received_bytes;
        for (int a = 0; a < N_AXES; a++) {
            double share = count / (double)sim->question->run.gpus / PS_PER_S;
            result->delays[a].transfer_s += share * state->transfer_ps[a];
            result->delays[a].delayed_s += share * state->delayed_ps[a];
            result->delays[a].waited_s += share * state->waited_ps[a];
        }
    }
}

static void collect_links(struct simulator *sim, struct sim_result *result)
{
    const struct folded *folded = &sim->cluster.folded;
    double step_ps = fmax((double)sim->end_ps, 1);
    for (int32_t l = 0; l < folded->n_links; l++) {
        struct link_record record = flow_network_link(sim->network, l, sim->end_ps);
        if (record.busy_ps <= 0) {
            continue;
        }
        result->resources[result->n_resources++] =
            (struct sim_resource){.name = topology_link_name(sim->arena, &sim->cluster.topology, folded->link_first[l]),
                                  .count = folded->link_count[l],
                                  .is_link = true,
                                  .busy_frac = fmin((double)record.busy_ps / step_ps, 1),
                                  .bytes = record.bytes,
                                  .capacity_bytes_per_s = sim->capacities[l],
                                  .contended_frac = fmin((double)record.contended_ps / step_ps, 1),
                                  .axes = record.tags};
    }
}

static void collect_resources(struct simulator *sim, struct sim_result *result)
{
    size_t most = (size_t)sim->cluster.n_classes + (size_t)sim->cluster.folded.n_links;
    double step_s = fmax((double)sim->end_ps / PS_PER_S, 1 / PS_PER_S);
    result->resources = sp_arena_array(sim->arena, most + 1, sizeof result->resources[0]);
    for (int c = 0; c < sim->cluster.n_classes; c++) {
        const struct sim_rank *rank = &result->ranks[c];
        result->resources[result->n_resources++] =
            (struct sim_resource){.name = sp_format(sim->arena, "gpu %lld compute", (long long)rank->rank),
                                  .count = rank->count,
                                  .busy_frac = fmin(rank->busy_s / step_s, 1)};
    }
    collect_links(sim, result);
}

static int compare_items(const void *a, const void *b)
{
    const struct sim_critical_item *x = a;
    const struct sim_critical_item *y = b;
    return (x->time_s < y->time_s) - (x->time_s > y->time_s);
}

static const struct path *last_path(const struct simulator *sim)
{
    const struct rank_state *last = &sim->ranks[sim->last_rank];
    return &last->paths[last->last_stream];
}

static void collect_critical(struct simulator *sim, struct sim_result *result)
{
    const struct path *path = last_path(sim);
    for (int item = 0; item < N_TIME_ITEMS; item++) {
        if (path->time_ps[item] > 0) {
            result->critical[result->n_critical++] =
                (struct sim_critical_item){.item = (enum time_item)item,
                                           .time_s = path->time_ps[item] / PS_PER_S,
                                           .delayed_s = path->delayed_ps[item] / PS_PER_S};
        }
    }
    qsort(result->critical, (size_t)result->n_critical, sizeof result->critical[0], compare_items);
}

void records_collect(struct simulator *sim, struct sim_result *result)
{
    result->step_time_s = (double)sim->end_ps / PS_PER_S;
    result->n_classes = sim->cluster.n_classes;
    result->events = 2 * (sim->n_tasks + flow_network_count(sim->network));
    collect_ranks(sim, result);
    collect_resources(sim, result);
    collect_critical(sim, result);
    result->peak = sim->peak;
    result->peak.peak_bytes = step_peak_bytes(sim->question, sim->peak.allocated_bytes);
}

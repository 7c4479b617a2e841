/* Memory of a rank over time: state, gradients as they appear, activations that micro-batches have saved, and what the moment at
 * work holds. The amounts are the estimate's (step/memory_moments.c); when they are held follows from the run. */
#include "sim/sim_internal.h"

#include <math.h>

static const struct program_segment *segment_of(const struct simulator *sim, const struct program_entry *entry)
{
    return &sim->program.segments[entry->segment];
}

static void grow(struct rank_state *state, double gradient_bytes)
{
    state->gradient_bytes = fmin(state->gradient_bytes + gradient_bytes, state->program->gradient_cap_bytes);
}

void memory_enter(struct simulator *sim, int32_t rank, const struct program_entry *entry)
{
    struct rank_state *state = &sim->ranks[rank];
    const struct program_segment *segment = segment_of(sim, entry);
    state->saved_bytes += fmax(segment->saved_bytes, 0);
    state->work_bytes = 0;
    grow(state, fmax(segment->first_gradient_bytes - state->gradient_bytes, 0)); /* once, whoever comes again */
}

void memory_leave(struct simulator *sim, int32_t rank, const struct program_entry *entry)
{
    struct rank_state *state = &sim->ranks[rank];
    const struct program_segment *segment = segment_of(sim, entry);
    state->saved_bytes += fmin(segment->saved_bytes, 0);
    state->work_bytes = 0;
    grow(state, segment->gradient_bytes);
}

static void note_peak(struct simulator *sim, int32_t rank, const struct program_entry *entry, enum moment moment,
                      double saved)
{
    const struct rank_state *state = &sim->ranks[rank];
    double stage_saved = state->program->saved_bytes;
    sim->peak = (struct sim_peak){.rank = sim->cluster.folded.rank_first[rank],
                                  .stage = sim->cluster.stage[rank],
                                  .time_s = (double)sim->now_ps / PS_PER_S,
                                  .allocated_bytes = state->held_bytes,
                                  .moment = moment,
                                  .layer = entry->layer,
                                  .micro_batch = entry->micro_batch,
                                  .micro_batches_held = stage_saved > 0 ? state->saved_bytes / stage_saved : 0,
                                  .state_bytes = state->program->state_bytes,
                                  .gradient_bytes = state->gradient_bytes,
                                  .saved_bytes = saved,
                                  .work_bytes = state->work_bytes};
}

void memory_at(struct simulator *sim, int32_t rank, const struct program_entry *entry, const struct program_op *op)
{
    struct rank_state *state = &sim->ranks[rank];
    const struct program_segment *segment = segment_of(sim, entry);
    if (op->moment >= 0) {
        state->work_bytes = segment->work_bytes[op->moment];
        state->saved_cap_bytes = segment->saved_cap_bytes;
    }
    double saved = fmin(state->saved_bytes, state->saved_cap_bytes);
    double held = state->program->state_bytes + state->gradient_bytes + saved + state->work_bytes;
    if (sim->options->sink != NULL && (held > state->held_bytes || held < state->held_bytes)) {
        sim->options->sink->memory(sim->options->sink->context, sim->cluster.folded.rank_first[rank], sim->now_ps,
                                   held);
    }
    state->held_bytes = held;
    state->peak_bytes = fmax(state->peak_bytes, held);
    if (held > sim->peak.allocated_bytes) {
        note_peak(sim, rank, entry, op->moment >= 0 ? (enum moment)op->moment : MOMENT_FORWARD, saved);
    }
}

/* One layout with its length or micro-batch changed: how far it fits. */
#include "search/probe.h"

int64_t probe_value(const struct probe_values *values, int64_t index)
{
    return values->list != NULL ? values->list[index] : values->unit * (index + 1);
}

static void change(struct probe *probe, int64_t value)
{
    struct question *question = &probe->question;
    *question = *probe->base;
    question->arena = probe->scratch;
    question->warnings = (struct sp_texts){.arena = probe->scratch};
    if (probe->kind == LIMIT_SEQ) {
        question->run.seq = value;
    } else if (probe->kind == LIMIT_MICRO_BATCH) {
        question->layout.micro_batch = value;
    }
    if (!probe->is_batch_given) {
        /* what does not multiply to the cluster is refused for that, not for a batch that nobody gave */
        const struct layout_spec *layout = &question->layout;
        bool divides = question->run.gpus % layout->dp == 0;
        question->run.global_batch = limits_batch(divides ? question->run.gpus : layout->dp, layout->micro_batch);
    }
}

enum probe_state probe_at(struct probe *probe, int64_t value)
{
    struct sp_arena_mark mark = sp_arena_mark(probe->scratch);
    change(probe, value);
    probe->err = (struct sp_error){.kind = SP_ERROR_NONE};
    bool is_legal = step_check(&probe->question, &probe->err);
    sp_arena_rewind(probe->scratch, mark);
    if (!is_legal) {
        return PROBE_REFUSED;
    }
    step_estimate(&probe->question, &probe->estimate);
    return probe->estimate.fits ? PROBE_FITS : PROBE_TOO_LARGE;
}

/* A list is short, and schedules refuse what leaves them too few micro-batches: every value is tried. */
static int64_t largest_of_list(struct probe *probe, const struct probe_values *values, int64_t from, bool *has_legal)
{
    int64_t best = -1;
    for (int64_t i = from; i < values->n; i++) {
        enum probe_state state = probe_at(probe, probe_value(values, i));
        *has_legal = *has_legal || state != PROBE_REFUSED;
        best = state == PROBE_FITS ? i : best;
    }
    return best;
}

/* Refusals come from what is too short (documents, rows under fp8), so a refused value counts as one to go beyond. */
int64_t probe_largest(struct probe *probe, const struct probe_values *values, int64_t from, bool *has_legal)
{
    if (values->list != NULL) {
        return largest_of_list(probe, values, from, has_legal);
    }
    int64_t low = from - 1; /* fits, or is too short, or is before the first */
    int64_t high = values->n;
    int64_t best = -1;
    int64_t step = 1;
    while (low + 1 < high) {
        bool is_open = high == values->n && step < high - low; /* nothing too large was met yet: double */
        int64_t index = is_open ? low + step : low + (high - low) / 2;
        enum probe_state state = probe_at(probe, probe_value(values, index));
        *has_legal = *has_legal || state != PROBE_REFUSED;
        best = state == PROBE_FITS ? index : best;
        if (state == PROBE_TOO_LARGE) {
            high = index;
        } else {
            low = index;
        }
        step *= 2;
    }
    return best;
}

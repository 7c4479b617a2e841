/* What a claim can be about, and how it is written. */
#include "search/claim.h"

#include <math.h>
#include <string.h>

/* ---- figures ----------------------------------------------------------------------------------------------------- */

#define OF_ESTIMATE(name, member)                                                                                      \
    static double name(const struct claim_subject *subject)                                                            \
    {                                                                                                                  \
        return subject->estimate->member;                                                                              \
    }
OF_ESTIMATE(tokens_per_s_per_gpu, tokens_per_s_per_gpu)
OF_ESTIMATE(tokens_per_s, tokens_per_s)
OF_ESTIMATE(mfu_frac, mfu_frac)
OF_ESTIMATE(step_time_s, step_time_s)
OF_ESTIMATE(peak_bytes, peak_bytes)
OF_ESTIMATE(capacity_bytes, capacity_bytes)
OF_ESTIMATE(headroom_bytes, headroom_bytes)
OF_ESTIMATE(attention_share_frac, hbm_attention_share_frac)
OF_ESTIMATE(ffn_share_frac, hbm_ffn_share_frac)
OF_ESTIMATE(hbm_utilisation_frac, hbm_utilisation_frac)
OF_ESTIMATE(attention_buffer_bytes, memory_bytes[MEMORY_ATTENTION_BUFFERS])

static double hbm_bytes_per_s(const struct claim_subject *subject)
{
    return subject->question->hardware.gpu.hbm_bandwidth.value;
}

static double hbm_bytes_per_s_per_node(const struct claim_subject *subject)
{
    return hbm_bytes_per_s(subject) * subject->question->hardware.node.gpus.value;
}

static double cluster_peak_bytes(const struct claim_subject *subject)
{
    return subject->estimate->peak_bytes * (double)subject->question->run.gpus;
}

static double activation_bytes(const struct claim_subject *subject)
{
    const double *bytes = subject->estimate->memory_bytes;
    return bytes[MEMORY_ACTIVATIONS] + bytes[MEMORY_ATTENTION_BUFFERS] + bytes[MEMORY_LOGITS];
}

static double nvlink_domain_gpus(const struct claim_subject *subject)
{
    return subject->question->hardware.node.nvlink_domain.value;
}

static double tokens_per_s_per_node(const struct claim_subject *subject)
{
    return subject->estimate->tokens_per_s_per_gpu * subject->question->hardware.node.gpus.value;
}

static double bubble_frac(const struct claim_subject *subject)
{
    return subject->estimate->time_s[TIME_BUBBLE] / subject->estimate->step_time_s;
}

static double imbalance_frac(const struct claim_subject *subject)
{
    return subject->estimate->time_s[TIME_IMBALANCE] / subject->estimate->step_time_s;
}

static double sp_exposed_frac(const struct claim_subject *subject)
{
    return subject->estimate->time_s[TIME_SP_EXPOSED] / subject->estimate->step_time_s;
}

/* Over the rows of the sequence-parallel axis, forward. */
static void sum_sp(const struct estimate *estimate, double *bytes, double *messages)
{
    *bytes = 0;
    *messages = 0;
    for (int i = 0; i < estimate->n_communications; i++) {
        const struct communication_row *row = &estimate->communications[i];
        bool is_counted = row->axis == AXIS_CP && row->pass == STEP_FORWARD;
        *bytes += is_counted ? row->bytes_per_layer : 0;
        *messages += is_counted ? row->messages_per_layer : 0;
    }
}

static double sp_forward_bytes_per_layer(const struct claim_subject *subject)
{
    double bytes = 0;
    double messages = 0;
    sum_sp(subject->estimate, &bytes, &messages);
    return bytes;
}

static double sp_forward_messages_per_layer(const struct claim_subject *subject)
{
    double bytes = 0;
    double messages = 0;
    sum_sp(subject->estimate, &bytes, &messages);
    return messages;
}

/* Bytes over the time on the links, of all passes. */
static double sp_bytes_per_s(const struct claim_subject *subject)
{
    double bytes = 0;
    double time_s = 0;
    for (int i = 0; i < subject->estimate->n_communications; i++) {
        const struct communication_row *row = &subject->estimate->communications[i];
        bytes += row->axis == AXIS_CP ? row->bytes_per_step : 0;
        time_s += row->axis == AXIS_CP ? row->time_s : 0;
    }
    return bytes / time_s;
}

static double attention_scores(const struct claim_subject *subject)
{
    double seq = (double)subject->question->run.seq;
    return seq * seq;
}

static double attention_scores_bytes(const struct claim_subject *subject)
{
    return attention_scores(subject) * (double)dtype_bytes(activation_dtype(subject->question->layout.precision));
}

/* ---- limits ------------------------------------------------------------------------------------------------------ */

static double limit_of(const struct claim_subject *subject, enum limit_kind kind)
{
    struct request request = *subject->request;
    struct limits limits;
    struct sp_error err = {.kind = SP_ERROR_NONE};
    request.nodes.is_given = request.nodes.is_given && kind != LIMIT_GPUS;
    request.gpus.is_given = request.gpus.is_given && kind != LIMIT_GPUS;
    request.dp.is_given = request.dp.is_given && kind != LIMIT_GPUS;
    request.seq.is_given = kind != LIMIT_SEQ;
    request.global_batch = NULL;
    if (!limits_of_layout(&request, subject->question->arena, &limits, &err) || !limits.items[kind].is_found) {
        return NAN;
    }
    return (double)limits.items[kind].value;
}

static double max_seq(const struct claim_subject *subject)
{
    return limit_of(subject, LIMIT_SEQ);
}

static double min_gpus(const struct claim_subject *subject)
{
    return limit_of(subject, LIMIT_GPUS);
}

/* ---- the table ---------------------------------------------------------------------------------------------------- */

/* Those that --claim takes stand first. */
static const struct claim_quantity quantities[] = {
    {"tokens_per_s_per_gpu", "tokens/s per GPU", CLAIM_RATE, SP_PURE, 1, 0, tokens_per_s_per_gpu},
    {"tokens_per_s", "tokens/s", CLAIM_RATE, SP_PURE, 1, 0, tokens_per_s},
    {"mfu_frac", "MFU", CLAIM_RATE, SP_FRACTION, 1, 0, mfu_frac},
    {"step_time_s", "s a step", CLAIM_RATE, SP_SECONDS, -1, 0, step_time_s},
    {"peak_bytes", "B at the peak of a GPU", CLAIM_BYTES, SP_BYTES, -1, 0, peak_bytes},
    {"hbm_bytes_per_s", "B/s of a GPU's memory", CLAIM_BANDWIDTH, SP_BYTES_PER_S, 1, 0, hbm_bytes_per_s},
    {"hbm_bytes_per_s_per_node", "B/s of a node's memory", CLAIM_BANDWIDTH, SP_BYTES_PER_S, 1, 0,
     hbm_bytes_per_s_per_node},
    {"cluster_peak_bytes", "B at the peak of all GPUs", CLAIM_BYTES, SP_BYTES, -1, 0, cluster_peak_bytes},
    {"capacity_bytes", "B of memory of a GPU", CLAIM_FIGURE, SP_BYTES, 0, CLAIM_MOST, capacity_bytes},
    {"headroom_bytes", "B left on a GPU", CLAIM_FIGURE, SP_BYTES, 1, 0, headroom_bytes},
    {"activation_bytes", "B of activations, attention buffers and logits", CLAIM_FIGURE, SP_BYTES, -1, 0,
     activation_bytes},
    {"attention_buffer_bytes", "B of attention buffers", CLAIM_FIGURE, SP_BYTES, -1, 0, attention_buffer_bytes},
    {"attention_scores", "scores of a head", CLAIM_FIGURE, SP_PURE, 0, 0, attention_scores},
    {"attention_scores_bytes", "B of scores of a head", CLAIM_FIGURE, SP_BYTES, 0, 0, attention_scores_bytes},
    {"attention_share_frac", "of the HBM traffic is attention's", CLAIM_FIGURE, SP_FRACTION, 0, 0,
     attention_share_frac},
    {"ffn_share_frac", "of the HBM traffic is the MLP's", CLAIM_FIGURE, SP_FRACTION, 0, 0, ffn_share_frac},
    {"hbm_utilisation_frac", "of the HBM bandwidth in use", CLAIM_FIGURE, SP_FRACTION, 0, 0, hbm_utilisation_frac},
    {"bubble_frac", "of the step is the bubble", CLAIM_FIGURE, SP_FRACTION, -1, 0, bubble_frac},
    {"imbalance_frac", "of the step is imbalance", CLAIM_FIGURE, SP_FRACTION, -1, 0, imbalance_frac},
    {"sp_exposed_frac", "of the step is exposed sp communication", CLAIM_FIGURE, SP_FRACTION, -1, 0, sp_exposed_frac},
    {"sp_forward_bytes_per_layer", "B sent by a GPU, a layer forward", CLAIM_FIGURE, SP_BYTES, -1, 0,
     sp_forward_bytes_per_layer},
    {"sp_forward_messages_per_layer", "messages of a GPU, a layer forward", CLAIM_FIGURE, SP_COUNT, 0, 0,
     sp_forward_messages_per_layer},
    {"sp_bytes_per_s", "B/s of sp communication", CLAIM_FIGURE, SP_BYTES_PER_S, 1, 0, sp_bytes_per_s},
    {"nvlink_domain_gpus", "GPUs that NVLink joins", CLAIM_FIGURE, SP_COUNT, 1, CLAIM_MOST, nvlink_domain_gpus},
    {"tokens_per_s_per_node", "tokens/s of a node's GPUs", CLAIM_FIGURE, SP_PURE, 1, 0, tokens_per_s_per_node},
    {"max_seq", "tokens at most", CLAIM_FIGURE, SP_TOKENS, 1, CLAIM_REACH, max_seq},
    {"min_gpus", "GPUs at least", CLAIM_FIGURE, SP_COUNT, -1, CLAIM_REACH, min_gpus},
};

const struct claim_quantity *claim_quantity_find(const char *name)
{
    for (size_t i = 0; i < SP_COUNT_OF(quantities); i++) {
        if (strcmp(quantities[i].name, name) == 0) {
            return &quantities[i];
        }
    }
    return NULL;
}

void claim_quantity_names(bool has_figures, struct sp_texts *names)
{
    for (size_t i = 0; i < SP_COUNT_OF(quantities); i++) {
        if (has_figures || quantities[i].kind != CLAIM_FIGURE) {
            sp_texts_add(names, "%s", quantities[i].name);
        }
    }
}

/* A share may be above 1: that is what some claims imply. */
static bool parse_share(struct sp_arena *arena, const char *text, double *value, struct sp_error *err)
{
    static const double per_cent = 100;
    size_t length = strlen(text);
    bool is_per_cent = length > 1 && text[length - 1] == '%';
    if (!sp_quantity_parse(is_per_cent ? sp_strndup(arena, text, length - 1) : text, SP_PURE, value, err)) {
        return sp_fail(err, SP_ERROR_USAGE, "expected a share such as \"0.45\" or \"45%%\", found \"%.60s\"", text);
    }
    *value /= is_per_cent ? per_cent : 1;
    return true;
}

/* No figure of a machine lies beyond; what a claim implies stays finite. */
static const double LEAST = 1e-30;
static const double MOST = 1e30;

bool claim_value_parse(struct sp_arena *arena, const struct claim_quantity *quantity, const char *text, double *value,
                       struct sp_error *err)
{
    struct sp_error plain = {.kind = SP_ERROR_NONE};
    bool is_good = false;
    if (quantity->dimension == SP_FRACTION) {
        is_good = parse_share(arena, text, value, err);
    } else {
        is_good =
            sp_quantity_parse(text, SP_PURE, value, &plain) || sp_quantity_parse(text, quantity->dimension, value, err);
    }
    bool is_zero_good = quantity->kind == CLAIM_FIGURE;
    bool is_in = (*value > LEAST || (is_zero_good && !(*value < 0) && !(*value > 0))) && *value < MOST;
    if (is_good && !is_in) {
        return sp_fail(err, SP_ERROR_USAGE, "expected a figure above 0%s, found \"%.60s\"",
                       *value > 1 ? " and below 1e30" : "", text);
    }
    return is_good;
}

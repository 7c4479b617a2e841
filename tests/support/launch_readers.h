/* Each launcher's lines read back as the launcher itself would read them, with its own defaults: written from their
 * documents, apart from the tables of src/report. */
#ifndef SEQPLAN_TESTS_LAUNCH_READERS_H
#define SEQPLAN_TESTS_LAUNCH_READERS_H

#include "spec/spec.h"
#include "support/launch_lines.h"

/* A layout as a launcher's lines say it; zero and seq are -1 where they say nothing of it. */
struct launch_found {
    int64_t tp, sp, pp, vpp, dp, ep, etp, sp_ulysses, micro_batch;
    int64_t gpus, seq, global_batch;
    enum method_id method;
    enum schedule_id schedule;
    enum recompute_kind recompute;
    int64_t recompute_layers;
    int zero;
    enum dtype precision;
    bool has_tp_sp;
    bool offloads_activations, offloads_optimizer, offloads_parameters;
    const char *order;  /* fastest first */
    const char *stages; /* "7,8,8,7", or NULL: equal */
};

/* What the launcher has from elsewhere: the model that a recipe or a name brings, the GPUs of a scheduler. */
struct launch_known {
    struct sp_arena *arena;
    int64_t n_layers;
    int64_t gpus;
    bool is_moe;
};

struct launch_reader {
    const char *launcher;
    enum framework_id framework;
    bool is_yaml;
    void (*read)(const struct launch_lines *lines, const struct launch_known *known, struct launch_found *found);
};
extern const struct launch_reader launch_readers[]; /* ends with a row without a launcher */

#endif

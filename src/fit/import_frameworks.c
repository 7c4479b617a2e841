/* Lines of training logs. What each framework prints of a step, of its memory and of its layout, in the versions that were
 * seen; a line with more or other members is read as far as it is known. */
#include "fit/training_log.h"

#include <string.h>

static const double MEBI = 0x1p20;
static const double GIBI = 0x1p30;
static const double TERA = 1e12;
static const double MS_PER_S = 1e3;

/* ---- facts ------------------------------------------------------------------------------------------------------ */

struct fact_name {
    const char *name;
    enum training_fact fact;
};

/* "  seq_length ........................... 8192": arguments as Megatron-LM and DeepSpeed list them; behind a long name
 * there are no dots. */
static void read_dotted(struct training_log *log, const char *line, const struct fact_name *names)
{
    for (const struct fact_name *name = names; name->name != NULL; name++) {
        const char *at = strstr(line, name->name);
        bool is_word = at != NULL && (at == line || at[-1] == ' ') && at[strlen(name->name)] == ' ';
        if (!is_word) {
            continue;
        }
        at += strlen(name->name);
        at += strspn(at, " ");
        at += strspn(at, ".");
        double value = 0;
        if (import_number_after(at, "", &value) != NULL) {
            training_set_fact(log, name->fact, value);
        }
    }
}

/* "world size: 16, data-parallel size: 1" */
static void read_labelled(struct training_log *log, const char *line, const struct fact_name *names)
{
    double value = 0;
    for (const struct fact_name *name = names; name->name != NULL; name++) {
        if (import_number_after(line, name->name, &value) != NULL) {
            training_set_fact(log, name->fact, value);
        }
    }
}

/* Seconds of the day in "2026-02-24 19:46:17,508" or "...19:46:17.508"; negative where there is none. */
static double time_of_day(const char *line)
{
    enum { MINUTE = 60, HOUR = 3600 };
    for (const char *at = strchr(line, ':'); at != NULL; at = strchr(at + 1, ':')) {
        int64_t hour = 0;
        int64_t minute = 0;
        double second = 0;
        char digits[3][8] = {"", "", ""};
        if (at - line < 2 || strlen(at) < 6 || at[3] != ':') {
            continue;
        }
        memcpy(digits[0], at - 2, 2);
        memcpy(digits[1], at + 1, 2);
        memcpy(digits[2], at + 4, 2);
        if (!import_integer(digits[0], &hour) || !import_integer(digits[1], &minute) ||
            !import_number(digits[2], &second, NULL)) {
            continue;
        }
        double fraction = 0;
        if (at[6] == ',' || at[6] == '.') {
            char decimals[] = "0.000";
            memcpy(decimals + 2, at + 7, strspn(at + 7, "0123456789") >= 3 ? 3 : 0);
            (void)import_number(decimals, &fraction, NULL);
        }
        return (double)(hour * HOUR + minute * MINUTE) + second + fraction;
    }
    return -1;
}

/* ---- Megatron-LM ------------------------------------------------------------------------------------------------ */

static const struct fact_name megatron_arguments[] = {{"world_size", FACT_GPUS},
                                                      {"tensor_model_parallel_size", FACT_TP},
                                                      {"context_parallel_size", FACT_CP},
                                                      {"pipeline_model_parallel_size", FACT_PP},
                                                      {"virtual_pipeline_model_parallel_size", FACT_VPP},
                                                      {"data_parallel_size", FACT_DP},
                                                      {"expert_model_parallel_size", FACT_EP},
                                                      {"seq_length", FACT_SEQ},
                                                      {"global_batch_size", FACT_GLOBAL_BATCH},
                                                      {"micro_batch_size", FACT_MICRO_BATCH},
                                                      {"num_layers", FACT_LAYERS},
                                                      {"hidden_size", FACT_HIDDEN},
                                                      {"ffn_hidden_size", FACT_FFN},
                                                      {"num_attention_heads", FACT_HEADS},
                                                      {"num_query_groups", FACT_KV_HEADS},
                                                      {NULL, FACT_GPUS}};
static const struct fact_name megatron_sizes[] = {{"using world size:", FACT_GPUS},
                                                  {", data-parallel size:", FACT_DP},
                                                  {" context-parallel size:", FACT_CP},
                                                  {" tensor-model-parallel size:", FACT_TP},
                                                  {" pipeline-model-parallel size:", FACT_PP},
                                                  {NULL, FACT_GPUS}};

/* "[Rank 0] (after 2 iterations) memory (MB) | allocated: 1.0 | max allocated: 2.0 | reserved: 3.0 | max reserved: 4.0",
 * in units of 2^20 bytes. */
static bool read_megatron_memory(struct training_log *log, int64_t number, const char *line)
{
    double allocated = 0;
    double reserved = 0;
    if (strstr(line, "memory (MB)") == NULL || import_number_after(line, "max allocated:", &allocated) == NULL) {
        return false;
    }
    if (import_number_after(line, "max reserved:", &reserved) == NULL) {
        reserved = 0;
    }
    training_note_memory(log, allocated * MEBI, reserved * MEBI);
    import_take(log->result, number, "memory");
    return true;
}

static bool read_megatron_step(struct training_log *log, int64_t number, const char *line)
{
    struct training_step step = {.line = number, .at_s = -1};
    double ms = 0;
    double tera = 0;
    double n_skipped = 0;
    const char *iteration = strstr(line, "iteration ");
    if (strstr(line, "elapsed time per iteration (ms):") == NULL &&
        (iteration == NULL || strstr(line, "consumed samples:") == NULL)) {
        return false;
    }
    if (iteration == NULL || !import_integer_after(iteration, "iteration ", &step.step) ||
        import_number_after(line, "elapsed time per iteration (ms):", &ms) == NULL || !(ms > 0)) {
        import_reject(log->result, number, "cut off", "no iteration with a time above 0");
        return true;
    }
    if (import_number_after(line, "number of skipped iterations:", &n_skipped) != NULL && n_skipped > 0) {
        import_skip(log->result, number, "no optimizer step", "iteration %lld was skipped (an overflow)",
                    (long long)step.step);
        return true;
    }
    step.time_s = ms / MS_PER_S;
    if (import_number_after(line, "throughput per GPU (TFLOP/s/GPU):", &tera) != NULL ||
        import_number_after(line, "TFLOPs:", &tera) != NULL) {
        step.flop_per_s_per_gpu = tera * TERA;
    }
    (void)import_number_after(line, "tokens per gpu per second (tgs):", &step.tokens_per_s_per_gpu);
    (void)import_integer_after(line, "global batch size:", &step.global_batch);
    training_add_step(log, &step);
    return true;
}

/* Under DeepSpeed, its timer says what memory was used. */
static bool read_deepspeed_memory(struct training_log *log, const char *line)
{
    double allocated = 0;
    if (import_number_after(line, "MaxMemAllocated=", &allocated) == NULL) {
        return false;
    }
    training_note_memory(log, allocated * GIBI, 0);
    return true;
}

bool megatron_line(struct training_log *log, int64_t number, const char *line)
{
    if (read_megatron_step(log, number, line) || read_megatron_memory(log, number, line) ||
        read_deepspeed_memory(log, line)) {
        return true;
    }
    if (strstr(line, "using world size:") != NULL) {
        read_labelled(log, line, megatron_sizes);
        return true;
    }
    read_dotted(log, line, megatron_arguments);
    return false;
}

/* ---- torchtitan ------------------------------------------------------------------------------------------------- */

static const struct fact_name torchtitan_mesh[] = {
    {" pp=", FACT_PP}, {" cp=", FACT_CP}, {" tp=", FACT_TP}, {" ep=", FACT_EP}, {NULL, FACT_GPUS}};
static const struct fact_name torchtitan_sizes[] = {{"local batch size ", FACT_MICRO_BATCH},
                                                    {"global batch size ", FACT_GLOBAL_BATCH},
                                                    {"sequence length ", FACT_SEQ},
                                                    {NULL, FACT_GPUS}};

/* "Building device mesh with parallelism: pp=1, dp_replicate=1, dp_shard=8, cp=1, tp=1, ep=1, etp=1" */
static void read_named_mesh(struct training_log *log, const char *line)
{
    static const char *const degrees[] = {" pp=", " dp_replicate=", " dp_shard=", " cp=", " tp="};
    double gpus = 1;
    double replicas = 1;
    for (size_t i = 0; i < SP_COUNT_OF(degrees); i++) {
        double degree = 0;
        if (import_number_after(line, degrees[i], &degree) == NULL || !(degree >= 1)) {
            return;
        }
        gpus *= degree;
        replicas *= strstr(degrees[i], "dp") != NULL ? degree : 1;
    }
    training_set_fact(log, FACT_GPUS, gpus);
    training_set_fact(log, FACT_DP, replicas);
    read_labelled(log, line, torchtitan_mesh);
}

/* "Building 2-D device mesh with ['dp_shard', 'tp'], [4, 2]" */
static void read_listed_mesh(struct training_log *log, const char *line)
{
    static const struct fact_name axes[] = {{"'pp'", FACT_PP}, {"'cp'", FACT_CP}, {"'tp'", FACT_TP}, {NULL, FACT_GPUS}};
    const char *names = strstr(line, "device mesh with [");
    const char *sizes = names == NULL ? NULL : strstr(names, "], [");
    double gpus = 1;
    double replicas = 1;
    if (sizes == NULL) {
        return;
    }
    sizes += strlen("], [");
    for (const char *name = strchr(names, '\''); name != NULL && name < sizes;) {
        double size = 0;
        const char *after = import_number_after(sizes, "", &size);
        const char *end = strchr(name + 1, '\'');
        if (after == NULL || end == NULL || !(size >= 1)) {
            return;
        }
        gpus *= size;
        replicas *= strncmp(name, "'dp", 3) == 0 ? size : 1;
        for (const struct fact_name *axis = axes; axis->name != NULL; axis++) {
            if (strncmp(name, axis->name, strlen(axis->name)) == 0) {
                training_set_fact(log, axis->fact, size);
            }
        }
        sizes = after + strspn(after, ", ");
        name = strchr(end + 1, '\'');
    }
    training_set_fact(log, FACT_GPUS, gpus);
    training_set_fact(log, FACT_DP, replicas);
}

/* "CUDA capacity: NVIDIA H100 with 95.00GiB memory" */
static const char *text_between(struct sp_arena *arena, const char *line, const char *before, const char *after)
{
    const char *begin = strstr(line, before);
    const char *end = begin == NULL ? NULL : strstr(begin, after);
    if (end == NULL) {
        return NULL;
    }
    begin += strlen(before);
    return begin >= end ? NULL : import_name(arena, begin, (size_t)(end - begin));
}

static void read_torchtitan_facts(struct training_log *log, const char *line)
{
    double parameters = 0;
    const char *gpu = text_between(log->arena, line, "CUDA capacity: ", " with ");
    const char *model =
        strstr(line, "total parameters") == NULL ? NULL : text_between(log->arena, line, "Model ", " size:");
    log->gpu = gpu != NULL ? gpu : log->gpu;
    if (model != NULL) {
        log->model = model;
        if (import_number_after(line, " size:", &parameters) != NULL) {
            training_set_fact(log, FACT_PARAMETERS, parameters);
        }
    }
    if (strstr(line, "device mesh with") != NULL) {
        read_named_mesh(log, line);
        read_listed_mesh(log, line);
    }
    if (strstr(line, "global batch size ") != NULL) {
        read_labelled(log, line, torchtitan_sizes);
    }
}

bool torchtitan_line(struct training_log *log, int64_t number, const char *line)
{
    struct training_step step = {.line = number, .at_s = time_of_day(line)};
    const char *begin = strstr(line, "step:");
    double gibi = 0;
    double tera = 0;
    if (begin == NULL || strstr(begin, "loss:") == NULL) {
        read_torchtitan_facts(log, line);
        return false;
    }
    bool has_rate = import_number_after(begin, "tps:", &step.tokens_per_s_per_gpu) != NULL ||
                    import_number_after(begin, "wps:", &step.tokens_per_s_per_gpu) != NULL;
    if (strstr(begin, "memory:") == NULL || !has_rate) {
        bool is_validation = strstr(line, "validat") != NULL;
        import_skip(log->result, number, is_validation ? "a validation" : "cut off", "no rate of a training step");
        return true;
    }
    if (!import_integer_after(begin, "step:", &step.step) || !(step.tokens_per_s_per_gpu > 0)) {
        import_reject(log->result, number, "cut off", "no step with a rate above 0");
        return true;
    }
    if (import_number_after(begin, "tflops:", &tera) != NULL) {
        step.flop_per_s_per_gpu = tera * TERA;
    }
    if (import_number_after(begin, "memory:", &gibi) != NULL) {
        training_note_memory(log, 0, gibi * GIBI);
    }
    training_add_step(log, &step);
    return true;
}

/* ---- nanotron --------------------------------------------------------------------------------------------------- */

/* "5.23K": a number with three digits and a decimal prefix. */
static bool number_with_prefix(const char *line, const char *label, double *value)
{
    static const struct {
        char letter;
        double factor;
    } prefixes[] = {{'K', 1e3}, {'M', 1e6}, {'G', 1e9}, {'B', 1e9}, {'T', 1e12}};
    const char *end = import_number_after(line, label, value);
    for (size_t i = 0; end != NULL && i < SP_COUNT_OF(prefixes); i++) {
        *value *= *end == prefixes[i].letter ? prefixes[i].factor : 1;
    }
    return end != NULL;
}

/* A line of the printed configuration: "sequence_length=4096," and nothing else. */
static void read_configuration(struct training_log *log, const char *line)
{
    static const struct fact_name names[] = {{"sequence_length=", FACT_SEQ},
                                             {"micro_batch_size=", FACT_MICRO_BATCH},
                                             {"num_hidden_layers=", FACT_LAYERS},
                                             {"hidden_size=", FACT_HIDDEN},
                                             {"intermediate_size=", FACT_FFN},
                                             {"num_attention_heads=", FACT_HEADS},
                                             {"num_key_value_heads=", FACT_KV_HEADS},
                                             {"dp=", FACT_DP},
                                             {"pp=", FACT_PP},
                                             {"tp=", FACT_TP},
                                             {"expert_parallel_size=", FACT_EP},
                                             {"context_parallel_size=", FACT_CP},
                                             {"zero_stage=", FACT_ZERO},
                                             {NULL, FACT_GPUS}};
    const struct import_words words = import_split(log->arena, line);
    for (int i = 0; i < words.count; i++) {
        const char *word = words.items[i];
        const char *open = strrchr(word, '('); /* "parallelism=ParallelismArgs(dp=8," */
        word = open == NULL ? word : open + 1;
        for (const struct fact_name *name = names; name->name != NULL; name++) {
            double value = 0;
            size_t length = strlen(name->name);
            if (strncmp(word, name->name, length) == 0 && import_number_after(word, name->name, &value) != NULL) {
                training_set_fact(log, name->fact, value);
            }
        }
    }
}

/* " Memory usage: 1.00MiB. Peak allocated 2.00MiB. Peak reserved: 3.00MiB" */
static bool read_nanotron_memory(struct training_log *log, const char *line)
{
    double allocated = 0;
    double reserved = 0;
    if (import_number_after(line, "Peak allocated ", &allocated) == NULL ||
        import_number_after(line, "Peak reserved: ", &reserved) == NULL) {
        return false;
    }
    training_note_memory(log, allocated * MEBI, reserved * MEBI);
    return true;
}

static bool is_below(const struct training_log *log, enum training_fact fact)
{
    return log->facts[fact] < 0;
}

bool nanotron_line(struct training_log *log, int64_t number, const char *line)
{
    struct training_step step = {.line = number, .at_s = -1};
    double ms = 0;
    double batch = 0;
    double rate = 0;
    double reserved = 0;
    double tera = 0;
    const char *begin = strstr(line, "iteration: ");
    if (begin == NULL || strstr(begin, "elapsed_time_per_iteration_ms") == NULL) {
        if (!read_nanotron_memory(log, line)) {
            read_configuration(log, line);
        }
        return false;
    }
    if (!import_integer_after(begin, "iteration:", &step.step) ||
        !number_with_prefix(begin, "elapsed_time_per_iteration_ms:", &ms) || !(ms > 0)) {
        import_reject(log->result, number, "cut off", "no iteration with a time above 0");
        return true;
    }
    step.time_s = ms / MS_PER_S;
    (void)number_with_prefix(begin, "tokens_per_sec_per_gpu:", &step.tokens_per_s_per_gpu);
    if (number_with_prefix(begin, "global_batch_size:", &batch)) {
        step.global_batch = (int64_t)batch;
    }
    if (number_with_prefix(begin, "tokens_per_sec:", &rate) && step.tokens_per_s_per_gpu > 0 &&
        is_below(log, FACT_GPUS)) {
        static const double half = 0.5; /* to the nearest: both have three digits */
        training_set_fact(log, FACT_GPUS, (double)(int64_t)(rate / step.tokens_per_s_per_gpu + half));
    }
    if (number_with_prefix(begin, "cuda_max_memory_reserved:", &reserved)) {
        training_note_memory(log, 0, reserved);
    }
    if (number_with_prefix(begin, "model_tflops_per_gpu:", &tera)) {
        step.flop_per_s_per_gpu = tera * TERA;
    }
    training_add_step(log, &step);
    return true;
}

/* ---- DeepSpeed -------------------------------------------------------------------------------------------------- */

static const struct fact_name deepspeed_arguments[] = {{"world_size", FACT_GPUS},
                                                       {"train_batch_size", FACT_GLOBAL_BATCH},
                                                       {"train_micro_batch_size_per_gpu", FACT_MICRO_BATCH},
                                                       {"zero_optimization_stage", FACT_ZERO},
                                                       {NULL, FACT_GPUS}};

/* "epoch=0/micro_step=40/global_step=10, RunningAvgSamplesPerSec=25.0, CurrSamplesPerSec=25.7, MemAllocated=4.32GB,
 * MaxMemAllocated=38.49GB"; older versions begin with "0/10, ". GB are 2^30 bytes. */
bool deepspeed_line(struct training_log *log, int64_t number, const char *line)
{
    struct training_step step = {.line = number, .at_s = -1};
    const char *rates = strstr(line, "RunningAvgSamplesPerSec=");
    if (rates == NULL) {
        read_dotted(log, line, deepspeed_arguments);
        return false;
    }
    (void)read_deepspeed_memory(log, line);
    const char *slash = rates;
    while (slash > line && *slash != '/') {
        slash--;
    }
    bool has_step =
        import_integer_after(line, "global_step=", &step.step) || import_integer_after(slash, "/", &step.step);
    if (!has_step || import_number_after(line, "CurrSamplesPerSec=", &step.samples_per_s) == NULL ||
        !(step.samples_per_s > 0)) {
        import_reject(log->result, number, "cut off", "no step with a rate above 0");
        return true;
    }
    training_add_step(log, &step);
    return true;
}

/* The operators of one decoder layer, forward and backward (docs/model.md, section 5). */
#include "step/step_internal.h"

#include <math.h>

enum { N_ATTENTION_PROJECTIONS = 5 };

/* q, k and v in one product and the output's; under MLA the latents down and up. */
static int attention_projections(const struct step_shape *shape, struct projection out[N_ATTENTION_PROJECTIONS])
{
    const struct model_spec *model = &shape->question->model;
    double t = shape->tokens;
    double h = shape->hidden;
    double q = shape->heads * shape->head_dim;
    double output = shape->heads * shape->value_head_dim;
    int n = 0;
    if (model->kv_lora_rank == 0) {
        double columns = q + shape->kv_heads * (shape->head_dim + shape->value_head_dim);
        out[n++] =
            (struct projection){"qkv projection", "qkv input gradient", "qkv weight gradient", t, columns, h, 1, true};
    } else {
        double nope = shape->head_dim - (double)model->rope_head_dim;
        double latent = (double)(model->kv_lora_rank + model->rope_head_dim);
        double split = t / shape->token_split; /* latents are projected before the gather */
        if (model->q_lora_rank > 0) {
            double q_lora = (double)model->q_lora_rank;
            out[n++] = (struct projection){
                "query down", "query down input gradient", "query down weight gradient", split, q_lora, h, 1, true};
            out[n++] = (struct projection){
                "query up", "query up input gradient", "query up weight gradient", t, q, q_lora, 1, true};
        } else {
            out[n++] = (struct projection){
                "query projection", "query input gradient", "query weight gradient", t, q, h, 1, true};
        }
        out[n++] = (struct projection){"key-value down",
                                       "key-value down input gradient",
                                       "key-value down weight gradient",
                                       split,
                                       latent,
                                       h,
                                       1,
                                       true};
        out[n++] = (struct projection){"key-value up",
                                       "key-value up input gradient",
                                       "key-value up weight gradient",
                                       t,
                                       shape->heads * (nope + shape->value_head_dim),
                                       (double)model->kv_lora_rank,
                                       1,
                                       true};
    }
    out[n++] = (struct projection){
        "output projection", "output input gradient", "output weight gradient", t, h, output, 1, true};
    return n;
}

enum { N_MLP_PROJECTIONS = 2 };
static void mlp_projections(const struct step_shape *shape, struct projection out[N_MLP_PROJECTIONS])
{
    bool is_gated = !shape->question->model.has_plain_mlp;
    out[0] = (struct projection){is_gated ? "gate and up" : "up",
                                 is_gated ? "gate and up input gradient" : "up input gradient",
                                 is_gated ? "gate and up weight gradient" : "up weight gradient",
                                 shape->tokens,
                                 shape->mlp_inputs * shape->ffn,
                                 shape->hidden,
                                 1,
                                 false};
    out[1] = (struct projection){
        "down", "down input gradient", "down weight gradient", shape->tokens, shape->hidden, shape->ffn, 1, false};
}

static void add_mlp_forward(const struct step_shape *shape, const struct kind_shape *kind, struct operator_list *list)
{
    if (kind->is_moe) {
        add_experts_forward(shape, list);
        return;
    }
    struct projection mlp[N_MLP_PROJECTIONS];
    mlp_projections(shape, mlp);
    project_forward(shape, list, &mlp[0]);
    int first = list->n;
    project_forward(shape, list, &mlp[1]);
    for (int i = first; i < list->n; i++) {
        list->rows[i].ends_layer = true;
    }
}

static void add_mlp_backward(const struct step_shape *shape, const struct kind_shape *kind, struct operator_list *list)
{
    if (kind->is_moe) {
        add_experts_backward(shape, list);
        return;
    }
    struct projection mlp[N_MLP_PROJECTIONS];
    mlp_projections(shape, mlp);
    if (shape->mlp_tiles > 1) { /* a tiled MLP keeps its input only and runs forward again, piece by piece */
        project_forward(shape, list, &mlp[0]);
        project_forward(shape, list, &mlp[1]);
        double again = mlp_passes(shape, kind, false) * kind_ffn_bytes(shape, kind);
        operator_mark(operator_elementwise(shape, list, "activation of the MLP again", again), false);
    }
    project_backward(shape, list, &mlp[1]);
    project_backward(shape, list, &mlp[0]);
}

static void add_projections(const struct step_shape *shape, const struct kind_shape *kind, struct operator_list *list,
                            bool is_forward)
{
    struct projection attention[N_ATTENTION_PROJECTIONS];
    int n = attention_projections(shape, attention);
    if (is_forward) {
        for (int i = 0; i < n; i++) {
            project_forward(shape, list, &attention[i]);
        }
        add_mlp_forward(shape, kind, list);
        return;
    }
    add_mlp_backward(shape, kind, list);
    for (int i = n - 1; i >= 0; i--) {
        project_backward(shape, list, &attention[i]);
    }
}

static void add_elementwise(const struct step_shape *shape, const struct kind_shape *kind, struct operator_list *list,
                            bool is_forward)
{
    const struct kernels_spec *kernels = &shape->question->software.kernels;
    double hidden = is_forward ? kernels->forward_hidden_passes.value : kernels->backward_hidden_passes.value;
    double ffn = mlp_passes(shape, kind, !is_forward);
    double rope = is_forward ? kernels->forward_rope_passes.value : kernels->backward_rope_passes.value;
    double join = is_forward ? 0 : kernels->backward_qkv_passes.value;
    double count = is_forward ? kernels->forward_kernels.value : kernels->backward_kernels.value;
    operator_elementwise(shape, list, "norms and residual additions",
                         hidden * shape->hidden_bytes / shape->token_split);
    if (shape->question->model.has_qk_norm) { /* one more norm over q and k: as many passes as one of the two above */
        operator_mark(operator_elementwise(shape, list, "norm of q and k", (is_forward ? 2 : 3) * shape->qk_bytes),
                      true);
    }
    if (shape->question->model.position_rows == 0) {
        operator_mark(operator_elementwise(shape, list, "rotary embedding", rope * shape->qk_bytes), true);
    }
    operator_mark(operator_elementwise(shape, list, "join q, k, v gradients", join * shape->qkv_bytes), true);
    operator_mark(operator_elementwise(shape, list, "activation of the MLP", ffn * kind_ffn_bytes(shape, kind)), false);
    struct operator_row latency = {.name = "latency of element-wise kernels",
                                   .formula = "kernels x kernel latency (eq. 26)",
                                   .source = shape->gpu->kernel_latency.source,
                                   .item = TIME_ELEMENTWISE,
                                   .count = count,
                                   .time_s = shape->gpu->kernel_latency.value};
    operator_add(list, &latency);
    list->sum.kernels += count;
}

/* Short shards: the host cannot launch the kernels and merges of a ring step as fast as the GPU runs them. */
static double host_floor(const struct step_shape *shape, const struct kind_shape *kind, bool is_backward)
{
    const struct framework_spec *framework = &shape->question->software.framework;
    double per_step = is_backward ? framework->step_host_backward.value : framework->step_host_forward.value;
    bool is_ring =
        kind->attention.traits->exchange == EXCHANGE_RING || kind->attention.traits->exchange == EXCHANGE_HYBRID;
    return is_ring && kind->attention.ranks > 1
               ? per_step * (double)kind->attention.ranks / (double)kind->attention.inner_ranks
               : 0;
}

static void add_exchange_rows(const struct kind_shape *kind, struct operator_list *list, const struct method_pass *cost)
{
    const struct attention_problem *problem = &kind->attention;
    for (int i = 0; i < MAX_TRANSFERS && cost->transfers[i].operation != NULL; i++) {
        const struct transfer *t = &cost->transfers[i];
        struct operator_row exchange = {.name = "exchange of the method",
                                        .formula = "what its kernels do not hide (eq. 40-49)",
                                        .source = problem->traits->source,
                                        .item = TIME_SP_EXPOSED,
                                        .is_attention_class = true,
                                        .count = 1,
                                        .hbm_bytes = 2 * t->sent_bytes,
                                        .time_s = t->exposed_s,
                                        .operation = t->operation,
                                        .axis = AXIS_CP,
                                        .tier = t->tier,
                                        .sent_bytes = t->sent_bytes,
                                        .messages = t->messages,
                                        .link_s = t->link_s};
        operator_add(list, &exchange);
    }
}

static void add_attention(const struct step_shape *shape, const struct kind_shape *kind, struct operator_list *list,
                          bool is_backward)
{
    const struct attention_problem *problem = &kind->attention;
    const char *source = problem->traits->source;
    struct method_pass cost;
    method_price(problem, is_backward, &cost);
    const struct operator_row rows[] = {
        {.name = "attention",
         .formula = "FLOP of the pairs / rate (eq. 20, 21)",
         .source = problem->curve->source,
         .item = TIME_ATTENTION,
         .is_attention_class = true,
         .count = 1,
         .m = problem->rows,
         .n = problem->rows * (double)problem->ranks,
         .k = problem->heads,
         .flop = cost.flop,
         .hbm_bytes = cost.attention_hbm_bytes,
         .time_s = cost.attention_s},
        {.name = "attention of the slowest rank beyond the mean",
         .formula = "slowest - mean (eq. 13)",
         .source = source,
         .item = TIME_IMBALANCE,
         .count = 1,
         .time_s = cost.imbalance_s},
        {.name = "merges and copies of the method",
         .formula = "bytes of the traits row / bandwidth (eq. 43)",
         .source = source,
         .item = TIME_SP_EXPOSED,
         .is_attention_class = true,
         .count = 1,
         .hbm_bytes = cost.merge_bytes,
         .time_s = cost.merge_s},
        {.name = "host of the ring's steps",
         .formula = "steps x framework figure step_host - what the GPU needs anyway",
         .source = source,
         .item = TIME_SP_EXPOSED,
         .count = 1,
         .time_s = fmax(host_floor(shape, kind, is_backward) - cost.total_s, 0)},
    };
    for (size_t i = 0; i < SP_COUNT_OF(rows); i++) {
        operator_add(list, &rows[i]);
    }
    list->sum.kernels += cost.kernels;
    add_exchange_rows(kind, list, &cost);
}

/* What tp ranks gather before attention: the hidden tensor, or under MLA the latents, projected from the split tensor. */
static double attention_input_bytes(const struct step_shape *shape)
{
    const struct model_spec *model = &shape->question->model;
    if (model->kv_lora_rank == 0 || model->q_lora_rank == 0) {
        return shape->hidden_bytes;
    }
    double latents = (double)(model->q_lora_rank + model->kv_lora_rank + model->rope_head_dim);
    return shape->hidden_bytes * latents / shape->hidden;
}

/* Asynchronous tensor parallelism hides a share of a collective behind the product beside it. */
static void add_tp_collective(const struct step_shape *shape, struct operator_list *list,
                              const struct collective_call *call)
{
    struct operator_row row = collective_row(shape, call);
    double hidden = shape->question->software.framework.tp_overlap.value;
    if (hidden > 0) {
        row.time_s *= 1 - hidden;
        row.formula = "collective over the group, less framework.tp_overlap of it (eq. 30-35, 53)";
    }
    operator_add(list, &row);
}

/* Megatron's tensor parallelism (eq. 53): with sequence parallelism each block gathers its input and scatters its output;
 * backward gathers the output gradient, scatters the input gradient, and gathers the saved input again unless it was
 * kept. Without it each block all-reduces once per pass. Experts gather nothing: every rank routes its own tokens. */
static void add_tensor_parallel(const struct step_shape *shape, const struct kind_shape *kind,
                                struct operator_list *list, bool is_backward)
{
    bool has_mlp = !(kind->is_moe && shape->shared_ffn <= 0 && shape->token_split > 1);
    double hidden = shape->hidden_bytes;
    if (!shape->question->layout.has_tp_sp) {
        add_tp_collective(shape, list,
                          &(struct collective_call){"tp all-reduce", AXIS_TP, &shape->tp_group, COLLECTIVE_ALL_REDUCE,
                                                    hidden, has_mlp ? 2 : 1});
        return;
    }
    /* the bound neither keeps the gathered input nor gathers it again */
    bool is_bound = shape->question->layout.framework == FRAMEWORK_IDEAL;
    bool gathers_again = is_backward && !is_bound && !shape->question->software.framework.saves_gathered_input &&
                         shape->question->run.lora_rank == 0;
    const double inputs[2] = {attention_input_bytes(shape), hidden};
    for (int block = 0; block < (has_mlp ? 2 : 1); block++) {
        double gathered = is_backward ? hidden : inputs[block];
        double scattered = is_backward ? inputs[block] : hidden;
        add_tp_collective(
            shape, list,
            &(struct collective_call){"tp all-gather", AXIS_TP, &shape->tp_group, COLLECTIVE_ALL_GATHER, gathered, 1});
        add_tp_collective(shape, list,
                          &(struct collective_call){"tp all-gather", AXIS_TP, &shape->tp_group, COLLECTIVE_ALL_GATHER,
                                                    inputs[block], gathers_again ? 1 : 0});
        int scatter = list->n;
        add_tp_collective(shape, list,
                          &(struct collective_call){"tp reduce-scatter", AXIS_TP, &shape->tp_group,
                                                    COLLECTIVE_REDUCE_SCATTER, scattered, 1});
        if (block > 0 && !is_backward && !kind->is_moe && list->n > scatter) {
            list->rows[scatter].ends_layer = true;
        }
    }
}

/* ZeRO 3 prefetches: a gather runs beside the layer before, a scatter beside the next one, and each slows that compute by
 * the SMs that it holds (eq. 55). `beside_s` is what is left of that compute. */
static void hide_beside(const struct step_shape *shape, struct operator_row *row, double *beside_s)
{
    const struct sp_figure *sms = row->tier == TIER_NVLINK || row->tier == TIER_PCIE
                                      ? &shape->gpu->communication_sms
                                      : &shape->gpu->network_communication_sms;
    double hidden_s = fmin(row->link_s, *beside_s);
    row->time_s = fmax(row->link_s - hidden_s, row->link_s * sms->value / shape->gpu->sm_count.value);
    row->formula = "what the neighbouring layer's compute does not hide, or what it slows down (eq. 55)";
    *beside_s -= hidden_s;
}

void add_sharding_copies(const struct step_shape *shape, struct operator_list *list,
                         const struct sharding_copies *copies)
{
    const struct framework_spec *framework = &shape->question->software.framework;
    double gathered = framework->gather_copy_passes.value * shape->element * copies->gathered;
    double scattered = framework->scatter_copy_passes.value * shape->gradient_size * copies->scattered;
    const struct operator_row row = {.name = "copies of gathered weights and of gradients",
                                     .formula =
                                         "framework figures gather_copy_passes and scatter_copy_passes x bytes / "
                                         "element-wise bandwidth (eq. 55a)",
                                     .source = framework->gather_copy_passes.source,
                                     .item = TIME_DP_EXPOSED,
                                     .count = copies->times,
                                     .hbm_bytes = gathered + scattered,
                                     .time_s = elementwise_time(shape->gpu, gathered + scattered, 0)};
    operator_add(list, &row);
}

/* ZeRO 3: weights gathered before each pass of the layer, gradients scattered after it, every micro-batch (eq. 55). */
static void add_sharded_weights(const struct step_shape *shape, int kind, struct operator_list *list, bool is_backward)
{
    if (shape->question->layout.zero < 3) {
        return;
    }
    struct parameters all = rank_layer_parameters(shape, kind);
    struct parameters trained = rank_layer_trained(shape, kind);
    double times = gathers_once(shape) ? 1 / (double)shape->micro_batches : 1; /* of a micro-batch */
    if (gathers_once(shape) && is_backward) {
        all = (struct parameters){0}; /* still whole from forward */
    }
    double scattered = is_backward ? shape->gradient_size : 0;
    const char *gather = "dp all-gather of weights";
    const char *scatter = "dp reduce-scatter of gradients";
    const struct collective_call calls[] = {
        {gather, AXIS_DP, &shape->shard_group, COLLECTIVE_ALL_GATHER, shape->element * all.dense, times},
        {gather, AXIS_DP, &shape->expert_shard_group, COLLECTIVE_ALL_GATHER, shape->element * all.expert, times},
        {scatter, AXIS_DP, &shape->shard_group, COLLECTIVE_REDUCE_SCATTER, scattered * trained.dense, times},
        {scatter, AXIS_DP, &shape->expert_shard_group, COLLECTIVE_REDUCE_SCATTER, scattered * trained.expert, times},
    };
    const struct sharding_copies copies = {shape->shards > 1 ? parameters_sum(all) : 0,
                                           is_backward && shape->shards > 1 ? parameters_sum(trained) : 0, times};
    add_sharding_copies(shape, list, &copies);
    double beside_s = list->sum.time_s;
    for (size_t i = 0; i < SP_COUNT_OF(calls); i++) {
        struct operator_row row = collective_row(shape, &calls[i]);
        if (row.count > 0 && calls[i].bytes > 0) {
            hide_beside(shape, &row, &beside_s);
            operator_add(list, &row);
        }
    }
}

double dropped_products_share(const struct step_shape *shape, int kind)
{
    const struct kind_shape *layer = &shape->kinds[kind];
    const struct model_spec *model = &shape->question->model;
    double q = shape->heads * shape->head_dim;
    double k = shape->kv_heads * shape->head_dim;
    double v = shape->kv_heads * shape->value_head_dim;
    double o = shape->heads * shape->value_head_dim;
    double ffn = kind_ffn_bytes(shape, layer) / (shape->element * shape->tokens);
    double up = (kind_mlp_inputs(shape, layer) - 1) * ffn; /* of gate, up and down the second */
    if (model->kv_lora_rank == 0) {                        /* q k v o gate up down */
        double all = q + k + v + o + (kind_mlp_inputs(shape, layer) + 1) * ffn;
        return (k + o + up) / all;
    }
    /* query down and up, key-value down and up, o, gate, up, down: elements of the matrices over the hidden size */
    double h = shape->hidden;
    double q_lora = (double)model->q_lora_rank;
    double c = (double)model->kv_lora_rank;
    double query_up = q_lora > 0 ? q_lora * q / h : q;
    double expansion = c * shape->heads * (shape->head_dim - (double)model->rope_head_dim + shape->value_head_dim) / h;
    double all = q_lora + query_up + c + (double)model->rope_head_dim + expansion + o +
                 (kind_mlp_inputs(shape, layer) + 1) * ffn;
    return (query_up + expansion + ffn) / all;
}

/* torch.utils.checkpoint rebuilds a layer up to the last tensor that backward asks for; a compiled layer is one operator. */
static bool stops_early(const struct step_shape *shape)
{
    return shape->question->software.framework.stops_recompute_early &&
           shape->question->layout.kernels == KERNELS_EAGER && shape->question->layout.recompute != RECOMPUTE_SELECTIVE;
}

/* What backward repeats. Full and block: the forward pass with its exchanges; its weights are gathered once for both, so
 * that gather stays with the backward. Selective: attention and its exchange; or, per operator, what lies between the
 * kept products: the element-wise kernels and every second product (k, o and one of gate and up). */
static double repeated_share(const struct step_shape *shape, int kind, const struct operator_row *row)
{
    bool is_attention = row->item == TIME_ATTENTION || row->item == TIME_IMBALANCE || row->item == TIME_SP_EXPOSED;
    if (row->item == TIME_DP_EXPOSED || (row->ends_layer && stops_early(shape))) {
        return 0;
    }
    if (shape->question->layout.recompute != RECOMPUTE_SELECTIVE) {
        return 1;
    }
    if (!keeps_products(shape)) {
        return is_attention ? 1 : 0;
    }
    if (row->item == TIME_ELEMENTWISE) {
        return 1;
    }
    return row->item == TIME_GEMM ? dropped_products_share(shape, kind) : 0;
}

/* From row `first` of forward on. */
static void copy_repeated(const struct step_shape *shape, int kind, struct layer_operators *layer, int first)
{
    for (int i = first; shape->question->layout.recompute != RECOMPUTE_NONE && i < layer->forward.n; i++) {
        struct operator_row row = layer->forward.rows[i];
        row.count *= repeated_share(shape, kind, &row);
        operator_add(&layer->reforward, &row);
    }
}

const char host_launches_name[] = "host launches";

/* The host launches one kernel after another: a pass takes at least as long as that. A bound has no host. */
static void add_launches(const struct step_shape *shape, struct operator_list *list)
{
    if (shape->question->layout.framework == FRAMEWORK_IDEAL) {
        return;
    }
    double launches_s = list->sum.kernels * shape->gpu->launch_latency.value;
    struct operator_row row = {.name = host_launches_name,
                               .formula = "kernels x launch latency - the pass's time (eq. 27a)",
                               .source = shape->gpu->launch_latency.source,
                               .item = TIME_OTHER,
                               .count = 1,
                               .time_s = fmax(launches_s - list->sum.time_s, 0)};
    operator_add(list, &row);
}

static void price_pass(const struct step_shape *shape, int kind, struct operator_list *list, bool is_backward)
{
    operator_list_begin(list, NULL);
    add_projections(shape, &shape->kinds[kind], list, !is_backward);
    add_attention(shape, &shape->kinds[kind], list, is_backward);
    add_elementwise(shape, &shape->kinds[kind], list, !is_backward);
    add_tensor_parallel(shape, &shape->kinds[kind], list, is_backward);
}

void price_layer_repeats(const struct step_shape *shape, int kind, struct layer_operators *layer)
{
    operator_list_begin(&layer->reforward, NULL);
    copy_repeated(shape, kind, layer, 0);
}

void price_layer_base(const struct step_shape *shape, int kind, struct layer_operators *layer)
{
    price_pass(shape, kind, &layer->forward, false);
    price_pass(shape, kind, &layer->backward, true);
    price_layer_repeats(shape, kind, layer);
}

void price_layer_rest(const struct step_shape *shape, int kind, struct layer_operators *layer)
{
    int first = layer->forward.n;
    add_sharded_weights(shape, kind, &layer->forward, false);
    add_launches(shape, &layer->forward);
    add_sharded_weights(shape, kind, &layer->backward, true);
    add_launches(shape, &layer->backward);
    copy_repeated(shape, kind, layer, first);
    add_offload_layer(shape, layer, kind);
    operator_list_pass(&layer->forward, STEP_FORWARD, true);
    operator_list_pass(&layer->backward, STEP_BACKWARD, true);
    operator_list_pass(&layer->reforward, STEP_RECOMPUTE, true);
}

/* Materialised scores: matrix products over the whole S x S square and softmax passes over it (docs/model.md, eq. 47).
 * The mask saves nothing here: the square is computed and then masked. */
#include "method/method.h"

/* Passes over the scores. Forward: scale, mask and softmax read and write them once; the products' own reads and writes are
 * in their GEMM traffic. Backward: softmax backward reads P and dP and writes dS. */
static const double FORWARD_SOFTMAX_PASSES = 2;
static const double BACKWARD_SOFTMAX_PASSES = 3;

enum { MAX_PRODUCTS = 4 };
struct products {
    int count;
    struct gemm_call calls[MAX_PRODUCTS]; /* of one head */
    double softmax_bytes;                 /* of all heads */
    double heads;
};

static struct products score_products(const struct attention_problem *problem, bool is_backward)
{
    double s = problem->rows * (double)problem->ranks;
    double d = problem->head_dim;
    double dv = problem->value_head_dim;
    double bytes = problem->element_bytes;
    enum dtype precision = bytes > 2 ? DTYPE_FP32 : DTYPE_BF16;
    struct gemm_call into_scores = {
        .pass = PASS_FORWARD, .precision = precision, .m = s, .n = s, .k = is_backward ? dv : d, .output_bytes = bytes};
    struct gemm_call out_of_scores = {
        .pass = PASS_FORWARD, .precision = precision, .m = s, .n = d, .k = s, .output_bytes = bytes};
    struct gemm_call out_of_scores_to_values = {
        .pass = PASS_FORWARD, .precision = precision, .m = s, .n = dv, .k = s, .output_bytes = bytes};
    struct products products = {.heads = problem->batch * problem->heads};
    double elements = products.heads * s * s;
    if (!is_backward) { /* Q K^T, P V */
        products.count = 2;
        products.calls[0] = into_scores;
        products.calls[1] = out_of_scores_to_values;
        products.softmax_bytes = FORWARD_SOFTMAX_PASSES * bytes * elements;
    } else { /* dO V^T, P^T dO, dS K, dS^T Q */
        products.count = 4;
        products.calls[0] = into_scores;
        products.calls[1] = out_of_scores_to_values;
        products.calls[2] = products.calls[3] = out_of_scores;
        products.softmax_bytes = BACKWARD_SOFTMAX_PASSES * bytes * elements;
    }
    return products;
}

static void price(const struct attention_problem *problem, bool is_backward, struct method_pass *pass)
{
    const struct gpu_spec *gpu = &problem->hardware->gpu;
    struct products products = score_products(problem, is_backward);
    for (int i = 0; i < products.count; i++) {
        pass->attention_s += products.heads * gemm_time(gpu, &products.calls[i]);
        pass->flop += products.heads * gemm_flop(&products.calls[i]);
        pass->attention_hbm_bytes += products.heads * gemm_hbm_bytes(&products.calls[i]);
    }
    pass->attention_s += elementwise_time(gpu, products.softmax_bytes, 0);
    pass->attention_hbm_bytes += products.softmax_bytes;
    pass->total_s = pass->attention_s;
    pass->kernels = products.count + 1;
}

static void emit(const struct attention_problem *problem, bool is_backward, struct task_graph *graph)
{
    struct products products = score_products(problem, is_backward);
    for (int i = 0; i < products.count; i++) {
        struct task product = {
            .kind = TASK_GEMM, .name = "score product", .share = products.heads, .gemm = products.calls[i]};
        task_graph_add(graph, &product, NULL, 0);
        if (i == 0) { /* softmax, forward or backward, follows the first product */
            struct task softmax = {.kind = TASK_ELEMENTWISE, .name = "softmax", .bytes = products.softmax_bytes};
            task_graph_add(graph, &softmax, NULL, 0);
        }
    }
}

const struct exchange_ops exchange_scores = {.price = price, .emit = emit};

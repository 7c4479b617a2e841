// One transformer layer over the ranks of a method, forward and backward, as a framework without tensor parallelism runs
// it: RMSNorm, QKV, rotary positions, attention, projection, RMSNorm, SwiGLU, residuals. bf16; every activation is kept.
#ifndef SEQPLAN_CUDA_LAYER_H
#define SEQPLAN_CUDA_LAYER_H

#include "gemm.h"
#include "methods.h"

struct layer_shape {
    struct method_shape attention;
    int hidden, ffn;
};

enum layer_linear { LINEAR_QKV, LINEAR_OUT, LINEAR_GATE_UP, LINEAR_DOWN, LINEARS };

// What the ranks of one GPU share: weights [out][in], and the products' plans.
struct layer_gpu {
    struct gemm gemm[LINEARS][3]; // by gemm_pass
    void *workspace, *weight[LINEARS], *norm_weight[2];
    bool opened;
};

struct layer_rank {
    struct method_rank *method; // its q, kv, o and their gradients are the layer's
    struct layer_gpu *gpu;
    void *x, *out, *d_out, *dx;                    // [tokens of the shard][hidden]
    void *normed[2], *qkv, *y, *middle, *d_middle; // middle: the residual between attention and MLP
    void *gate_up, *act, *d_gate_up, *d_act, *d_normed;
    void *d_weight[LINEARS];
    float *rstd[2], *partials, *d_norm[2], *cos_sin;
};

struct layer_run {
    struct layer_shape shape;
    struct method_run method;
    struct layer_rank *at;
};

size_t layer_linear_in(const struct layer_shape *s, enum layer_linear which);
size_t layer_linear_out(const struct layer_shape *s, enum layer_linear which);

// Plans for the GPU, and memory of the weights where they are NULL. "" or why not.
const char *layer_gpu_open(struct layer_gpu *g, const struct layer_shape *s, int gpu, method_alloc alloc,
                           void *context);
void layer_gpu_close(struct layer_gpu *g);
// After method_rank_create(), memory of what is NULL. false: none was left.
bool layer_rank_create(struct layer_rank *r, const struct layer_shape *s, method_alloc alloc, void *context);

// Only queue; backward after forward.
cudaError_t layer_forward(struct layer_run *l);
cudaError_t layer_backward(struct layer_run *l);

// FLOP of a rank's linear layers in a pass.
double layer_linear_flop(const struct layer_shape *s, bool backward);

#endif

// The parts of build/seqplan-device. Each command returns the program's exit status.
#ifndef SEQPLAN_CUDA_DEVICE_PROGRAM_H
#define SEQPLAN_CUDA_DEVICE_PROGRAM_H

#include "attention.h"

int device_test(int argc, char **argv);
int device_bench_attention(int argc, char **argv);
int device_measure(int argc, char **argv);
int device_test_elementwise(int argc, char **argv);

// ---- tests: device_test.cu -------------------------------------------------------------------------------------------

struct suite {
    uint64_t seed;
    const char *only;
    bool small, gpu, hopper;
    int count, failed;
};
// A test is to be run when this says so: it numbers it, and skips it by name without a GPU. Then its result.
bool suite_wants(struct suite *s, const char *name);
void suite_result(struct suite *s, const char *name, bool fine, const char *remark);
// false: the device is beyond use.
bool test_methods(struct suite *s); // method_test.cu
bool test_layers(struct suite *s);  // layer_test.cu

// Norm of the difference over norm of the reference.
double error_of(const double *x, const double *reference, size_t n);

// ---- random inputs ---------------------------------------------------------------------------------------------------

uint64_t random_next(uint64_t *state);
double random_normal(uint64_t *state);
uint16_t bf16_of(double x);
double bf16_value(uint16_t x);
// n normal values times `scale`, rounded to bf16; `values` (may be NULL) are what the rounded ones stand for.
void random_bf16(uint64_t *state, double scale, size_t n, uint16_t *rounded, double *values);

// ---- reference -----------------------------------------------------------------------------------------------------------

// Attention in float64 on the CPU, in three plain passes a row. Query i sees key j where k_position[j] <= q_position[i],
// or always without `causal`.
struct reference {
    int q_tokens, k_tokens, q_heads, kv_heads, head_dim;
    bool causal;
    const int64_t *q_position, *k_position;
    double scale;
    const double *q, *k, *v;
};

// o [q_tokens][q_heads][head_dim], lse [q_heads][q_tokens].
void reference_forward(const struct reference *r, double *o, double *lse);
// delta is taken from `o`, which may be the rounded output of a kernel, as the kernels' is.
void reference_backward(const struct reference *r, const double *o, const double *lse, const double *d_o, double *dq,
                        double *dk, double *dv);

#endif

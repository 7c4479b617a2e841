// What the portable kernels need of PTX: the matrix instruction of sm_80, its operands from shared memory, and
// asynchronous copies. Tiles in shared memory are rows of a head's columns, their 16-byte chunks swizzled by the row.
#ifndef SEQPLAN_CUDA_PORTABLE_CUH
#define SEQPLAN_CUDA_PORTABLE_CUH

#include "attention_device.cuh"

#define PORTABLE_THREADS 128
#define PORTABLE_TILE 64 // queries and keys

// Byte offset of a 16-byte chunk in a tile with `chunks` chunks a row.
__device__ __forceinline__ uint32_t chunk_at(int row, int chunk, int chunks)
{
    return (uint32_t)(row * chunks + (chunk ^ (row & 7))) * 16;
}

__device__ __forceinline__ void copy_async(uint32_t to, const void *from, bool there)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(there ? 16 : 0) : "memory");
}

__device__ __forceinline__ void copy_commit(void)
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int PENDING> __device__ __forceinline__ void copy_wait(void)
{
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

// PORTABLE_TILE rows of one head; rows from `tokens` on become zeros.
template <int D>
__device__ __forceinline__ void copy_rows(uint32_t to, const __nv_bfloat16 *from, int first, int tokens, int head,
                                          int heads)
{
    const int chunks = D / 8;
    for (int i = (int)threadIdx.x; i < PORTABLE_TILE * chunks; i += PORTABLE_THREADS) {
        int row = i / chunks, chunk = i % chunks, token = first + row;
        bool there = token < tokens;
        size_t at = ((size_t)(there ? token : 0) * (size_t)heads + (size_t)head) * D + (size_t)chunk * 8;
        copy_async(to + chunk_at(row, chunk, chunks), from + at, there);
    }
}

__device__ __forceinline__ void load_matrices(uint32_t (&r)[4], uint32_t address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}

__device__ __forceinline__ void load_matrices_transposed(uint32_t (&r)[4], uint32_t address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}

// d (16 x 8) += a (16 x 16) * b (16 x 8)
__device__ __forceinline__ void multiply(float *d, const uint32_t *a, const uint32_t *b)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Left operand: 16 rows from `row` on, step of 16 columns.
template <int D> __device__ __forceinline__ void load_left(uint32_t (&a)[4], uint32_t tile, int row, int step)
{
    int lane = threadIdx.x % 32;
    load_matrices(a, tile + chunk_at(row + lane % 16, 2 * step + lane / 16, D / 8));
}

// s (16 x 64) = a's 16 rows from `row` on, times the 64 rows of b, transposed.
template <int D> __device__ __forceinline__ void scores(float (&s)[32], uint32_t a_tile, int row, uint32_t b_tile)
{
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < 32; i++)
        s[i] = 0;
#pragma unroll
    for (int step = 0; step < D / 16; step++) {
        uint32_t a[4];
        load_left<D>(a, a_tile, row, step);
#pragma unroll
        for (int n = 0; n < 4; n++) {
            uint32_t b[4];
            load_matrices(b, b_tile + chunk_at(n * 16 + lane / 16 * 8 + lane % 8, 2 * step + lane / 8 % 2, D / 8));
            multiply(s + 8 * n, a, b);
            multiply(s + 8 * n + 4, a, b + 2);
        }
    }
}

// o (16 x 2W*8 columns from chunk `first` on) += p (16 x 64, packed) * the 64 rows of x.
template <int D, int W>
__device__ __forceinline__ void accumulate(float *o, const uint32_t *p, uint32_t x_tile, int first)
{
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int step = 0; step < 4; step++)
#pragma unroll
        for (int n = 0; n < W; n++) {
            uint32_t b[4];
            load_matrices_transposed(b, x_tile + chunk_at(step * 16 + lane % 16, first + 2 * n + lane / 16, D / 8));
            multiply(o + 8 * n, p + 4 * step, b);
            multiply(o + 8 * n + 4, p + 4 * step, b + 2);
        }
}

__device__ __forceinline__ uint32_t pack_pair(float low, float high)
{
    __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return *(uint32_t *)&pair;
}

__device__ __forceinline__ uint32_t shared_at(const void *pointer)
{
    return (uint32_t)__cvta_generic_to_shared(pointer);
}

#endif

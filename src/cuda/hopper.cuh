// What the Hopper kernels need of PTX beyond the matrix instruction (wgmma.cuh): barriers in shared memory, the tensor
// copy engine, descriptors of operands, registers handed from one warpgroup to another.
#ifndef SEQPLAN_CUDA_HOPPER_CUH
#define SEQPLAN_CUDA_HOPPER_CUH

#include <cuda.h>
#include <stdint.h>

#include "wgmma.cuh"

#define WARPGROUP 128

// A tile in shared memory is rows of 128 bytes (64 bf16), swizzled in groups of eight rows: PTX ISA, "128B swizzle".
#define TILE_ROW_BYTES 128
#define TILE_COLUMNS 64
#define TILE_GROUP_BYTES (8 * TILE_ROW_BYTES)

// A barrier that is not met within this many attempts (each suspends the thread for a while; hundreds of milliseconds in
// all) means a fault in the kernel: trap, so that the caller sees an error in place of a GPU that hangs. Reading a clock
// here instead costs the kernels the registers of their accumulators.
#define BARRIER_ATTEMPTS (1 << 24)

__device__ __forceinline__ uint32_t shared_address(const void *pointer)
{
    return (uint32_t)__cvta_generic_to_shared(pointer);
}

// ---- barriers ----------------------------------------------------------------------------------------------------

__device__ __forceinline__ void barrier_init(uint64_t *barrier, int arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}

// Makes initialised barriers visible to the copy engine.
__device__ __forceinline__ void barrier_init_fence(void)
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void barrier_expect(uint64_t *barrier, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
                 : "memory");
}

__device__ __forceinline__ void barrier_arrive(uint64_t *barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

__device__ __forceinline__ bool barrier_try(uint32_t address, int parity)
{
    uint32_t done;
    asm volatile("{.reg .pred p;\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, p;}\n"
                 : "=r"(done)
                 : "r"(address), "r"(parity)
                 : "memory");
    return done != 0;
}

__device__ __forceinline__ void barrier_wait(uint64_t *barrier, int parity)
{
    uint32_t address = shared_address(barrier);
    for (int attempt = 0; attempt < BARRIER_ATTEMPTS; attempt++)
        if (barrier_try(address, parity))
            return;
    __trap();
}

// Barriers of the hardware, by number: `sync` waits until `threads` threads have arrived or are waiting.
__device__ __forceinline__ void named_sync(int name, int threads)
{
    asm volatile("bar.sync %0, %1;" ::"r"(name), "r"(threads) : "memory");
}

__device__ __forceinline__ void named_arrive(int name, int threads)
{
    asm volatile("bar.arrive %0, %1;" ::"r"(name), "r"(threads) : "memory");
}

// ---- the copy engine -------------------------------------------------------------------------------------------------

// One box of a tensor [token][head][column]; what lies outside the tensor arrives as zeros.
__device__ __forceinline__ void copy_box(void *destination, const CUtensorMap *map, uint64_t *barrier, int column,
                                         int head, int token)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(shared_address(destination)),
                 "l"(map), "r"(shared_address(barrier)), "r"(column), "r"(head), "r"(token)
                 : "memory");
}

// Contiguous bytes, a multiple of 16 and aligned so.
__device__ __forceinline__ void copy_bytes(void *destination, const void *source, int bytes, uint64_t *barrier)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     shared_address(destination)),
                 "l"(source), "r"(bytes), "r"(shared_address(barrier))
                 : "memory");
}

__device__ __forceinline__ void copy_prefetch_map(const CUtensorMap *map)
{
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// Ordinary stores to shared memory become visible to the matrix instruction and the copy engine.
__device__ __forceinline__ void shared_store_fence(void)
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// ---- the matrix instruction --------------------------------------------------------------------------------------------

__device__ __forceinline__ void wgmma_fence(void)
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ __forceinline__ void wgmma_commit(void)
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

template <int PENDING> __device__ __forceinline__ void wgmma_wait(void)
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

// Keeps the compiler from reading a result before the wait above it.
template <int N> __device__ __forceinline__ void wgmma_result(float (&d)[N])
{
#pragma unroll
    for (int i = 0; i < N; i++)
        asm volatile("" : "+f"(d[i])::"memory");
}

// The same for an operand that must not be overwritten before the wait above it.
template <int N> __device__ __forceinline__ void wgmma_operand(uint32_t (&a)[N])
{
#pragma unroll
    for (int i = 0; i < N; i++)
        asm volatile("" : "+r"(a[i])::"memory");
}

// Operand at a swizzled tile. K contiguous: groups of eight rows of M or N follow at 1024 bytes, and 16 steps of K are 32
// bytes on. M or N contiguous: eight rows of K follow at 1024 bytes, the next 64 columns at `columns_bytes`.
__device__ __forceinline__ uint64_t operand(uint32_t address, uint32_t columns_bytes)
{
    const uint64_t swizzle_128 = 1ull << 62;
    return swizzle_128 | (uint64_t)(TILE_GROUP_BYTES >> 4) << 32 | (uint64_t)(columns_bytes >> 4) << 16 |
           (uint64_t)((address & 0x3ffff) >> 4);
}

template <int REGISTERS> __device__ __forceinline__ void registers_more(void)
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

template <int REGISTERS> __device__ __forceinline__ void registers_less(void)
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

// ---- arithmetic ----------------------------------------------------------------------------------------------------------

__device__ __forceinline__ float exp2_fast(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// `low` in the lower half.
__device__ __forceinline__ uint32_t pack_bf16(float low, float high)
{
    uint32_t packed;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
}

// Four 8 x 8 matrices of bf16 from registers to shared memory, each lane with the address of one row.
__device__ __forceinline__ void store_matrices(uint32_t address, const uint32_t *r)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(r[0]),
                 "r"(r[1]), "r"(r[2]), "r"(r[3])
                 : "memory");
}

// Four consecutive floats added to memory at once.
__device__ __forceinline__ void add_four(float *address, float a, float b, float c, float d)
{
    asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(address), "f"(a), "f"(b), "f"(c),
                 "f"(d)
                 : "memory");
}

#endif

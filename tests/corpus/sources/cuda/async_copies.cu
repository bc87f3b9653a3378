// cp.async in the three ways that CUDA C++ offers it.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda_pipeline.h>

namespace cg = cooperative_groups;

constexpr int TILE = 256;

// out[i] = 3 x[i] + x[neighbour within the tile], two stages by the primitives.
extern "C" __global__ void pipeline_primitives(const float *x, float *out, int tiles)
{
    __shared__ alignas(16) float stage[2][TILE];
    const int t = threadIdx.x;
    auto fetch = [&](int tile) {
        if (t < TILE / 4)
            __pipeline_memcpy_async(&stage[tile % 2][t * 4], x + tile * TILE + t * 4, 16);
        __pipeline_commit();
    };
    fetch(0);
    for (int tile = 0; tile < tiles; tile++) {
        if (tile + 1 < tiles) fetch(tile + 1);
        else __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        out[tile * TILE + t] = 3.0f * stage[tile % 2][t] + stage[tile % 2][(t + 1) % TILE];
        __syncthreads();
    }
}

// The same with cuda::pipeline over the block: mbarriers appear in the PTX.
extern "C" __global__ void pipeline_block(const float *x, float *out, int tiles)
{
    __shared__ alignas(16) float stage[2][TILE];
#pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    const cg::thread_block block = cg::this_thread_block();
    auto pipe = cuda::make_pipeline(block, &state);
    const int t = threadIdx.x;
    const auto bytes = cuda::aligned_size_t<16>(sizeof(float) * TILE);
    pipe.producer_acquire();
    cuda::memcpy_async(block, stage[0], x, bytes, pipe);
    pipe.producer_commit();
    for (int tile = 0; tile < tiles; tile++) {
        if (tile + 1 < tiles) {
            pipe.producer_acquire();
            cuda::memcpy_async(block, stage[(tile + 1) % 2], x + (tile + 1) * TILE, bytes, pipe);
            pipe.producer_commit();
        }
        pipe.consumer_wait();
        out[tile * TILE + t] = 3.0f * stage[tile % 2][t] + stage[tile % 2][(t + 1) % TILE];
        pipe.consumer_release();
    }
}

// cuda::memcpy_async on a cuda::barrier.
extern "C" __global__ void barrier_copy(const int *x, int *out)
{
    __shared__ alignas(16) int tile[TILE];
#pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ cuda::barrier<cuda::thread_scope_block> ready;
    const cg::thread_block block = cg::this_thread_block();
    if (block.thread_rank() == 0) init(&ready, block.size());
    block.sync();
    cuda::memcpy_async(block, tile, x + blockIdx.x * TILE,
                       cuda::aligned_size_t<16>(sizeof(int) * TILE), ready);
    ready.arrive_and_wait();
    out[blockIdx.x * TILE + threadIdx.x] = tile[TILE - 1 - threadIdx.x];
}

// cg::memcpy_async and cg::wait; 4-byte copies because of the odd offset.
extern "C" __global__ void group_copy(const int *x, int *out)
{
    __shared__ int tile[TILE];
    const cg::thread_block block = cg::this_thread_block();
    cg::memcpy_async(block, tile, x + blockIdx.x * TILE + 1, sizeof(int) * TILE);
    cg::wait(block);
    out[blockIdx.x * TILE + threadIdx.x] = tile[threadIdx.x ^ 21];
}

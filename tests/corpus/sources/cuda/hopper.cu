// What sm_90 brings to CUDA C++ without tensor maps: clusters, distributed shared memory, bulk
// copies on mbarriers, stmatrix, elect.
#include <cooperative_groups.h>
#include <cuda/barrier>
#include <cuda/ptx>

namespace cg = cooperative_groups;

// A histogram whose bins are spread over the blocks of a cluster of two.
extern "C" __global__ void __cluster_dims__(2, 1, 1)
cluster_histogram(const unsigned char *x, unsigned *bins, int n)
{
    __shared__ unsigned mine[64];
    cg::cluster_group cluster = cg::this_cluster();
    if (threadIdx.x < 64) mine[threadIdx.x] = 0;
    cluster.sync();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        const int bin = x[i] % 128;
        atomicAdd(cluster.map_shared_rank(mine, bin / 64) + bin % 64, 1u);
    }
    cluster.sync();
    if (threadIdx.x < 64)
        atomicAdd(&bins[cluster.block_rank() * 64 + threadIdx.x], mine[threadIdx.x]);
}

// Each block reads its right neighbour's shared memory in a cluster of four.
extern "C" __global__ void __cluster_dims__(4, 1, 1) cluster_rotate(const int *x, int *y)
{
    __shared__ int tile[64];
    cg::cluster_group cluster = cg::this_cluster();
    tile[threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x] + cluster.block_rank();
    cluster.sync();
    const unsigned next = (cluster.block_rank() + 1) % cluster.num_blocks();
    const int *other = cluster.map_shared_rank(tile, next);
    y[blockIdx.x * 64 + threadIdx.x] = other[63 - threadIdx.x] * 10 + cluster.num_blocks();
    cluster.sync();
}

// Bulk copy in, arithmetic, bulk copy out: the two proxies meet twice.
extern "C" __global__ void bulk_copies(const int *x, int *y)
{
    __shared__ alignas(128) int tile[256];
#pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ cuda::barrier<cuda::thread_scope_block> full;
    if (threadIdx.x == 0) {
        init(&full, blockDim.x);
        cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
    }
    __syncthreads();
    cuda::barrier<cuda::thread_scope_block>::arrival_token token;
    if (threadIdx.x == 0) {
        cuda::device::memcpy_async_tx(tile, x + blockIdx.x * 256,
                                      cuda::aligned_size_t<16>(sizeof(tile)), full);
        token = cuda::device::barrier_arrive_tx(full, 1, sizeof(tile));
    } else {
        token = full.arrive();
    }
    full.wait(std::move(token));
    for (int i = threadIdx.x; i < 256; i += blockDim.x) tile[i] = tile[i] * 3 + 1;
    cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
    __syncthreads();
    if (threadIdx.x == 0) {
        cuda::ptx::cp_async_bulk(cuda::ptx::space_global, cuda::ptx::space_shared,
                                 y + blockIdx.x * 256, tile, sizeof(tile));
        cuda::ptx::cp_async_bulk_commit_group();
        cuda::ptx::cp_async_bulk_wait_group_read(cuda::ptx::n32_t<0>());
    }
}

// A ring of bulk copies: one producer warp, two consumer warps, full and empty barriers.
extern "C" __global__ void bulk_ring(const float *x, float *sums, int tiles)
{
    constexpr int STAGES = 3, TILE = 128;
    __shared__ alignas(128) float ring[STAGES][TILE];
    __shared__ cuda::std::uint64_t full[STAGES], empty[STAGES];
    namespace ptx = cuda::ptx;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) {
            ptx::mbarrier_init(&full[s], 1);
            ptx::mbarrier_init(&empty[s], 64);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    if (threadIdx.x >= 64) {
        unsigned elected;
        asm volatile("{\n .reg .pred p;\n elect.sync _|p, 0xffffffff;\n selp.u32 %0, 1, 0, p;\n}"
                     : "=r"(elected));
        for (int tile = 0; elected && tile < tiles; tile++) {
            const int s = tile % STAGES, round = tile / STAGES;
            while (!ptx::mbarrier_try_wait_parity(&empty[s], (round & 1) ^ 1)) { }
            ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared,
                                           &full[s], sizeof(ring[s]));
            ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, ring[s], x + tile * TILE,
                               sizeof(ring[s]), &full[s]);
        }
    } else {
        float sum = 0.0f;
        for (int tile = 0; tile < tiles; tile++) {
            const int s = tile % STAGES, round = tile / STAGES;
            while (!ptx::mbarrier_try_wait_parity(&full[s], round & 1)) { }
            sum += ring[s][threadIdx.x] * (tile + 1) - ring[s][threadIdx.x + 64];
            ptx::mbarrier_arrive(&empty[s]);
        }
        sums[threadIdx.x] = sum;
    }
}

// stmatrix, plain and transposed, and a 128-bit compare-and-swap.
extern "C" __global__ void store_matrices(const unsigned *x, unsigned short *y)
{
    __shared__ alignas(16) unsigned short tile[16 * 8];
    const int lane = threadIdx.x;
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(tile));
    asm volatile("stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%0], {%1};"
                 ::"r"(at + (lane % 8) * 16), "r"(x[lane]) : "memory");
    asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};"
                 ::"r"(at + 128 + (7 - lane % 8) * 16), "r"(x[lane + 32]) : "memory");
    __syncwarp();
    for (int i = lane; i < 128; i += 32) y[i] = tile[i];
}

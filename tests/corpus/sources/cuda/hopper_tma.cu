// Tensor maps as kernel parameters on sm_90a: tiles with edges, a GEMM fed by TMA, multicast,
// reductions on the way to global memory.
#include <cuda.h>
#include <cuda/ptx>

namespace ptx = cuda::ptx;
using Barrier = cuda::std::uint64_t;
using Word = unsigned;
using Long = unsigned long long;

__device__ Word shared(const void *p) { return static_cast<Word>(__cvta_generic_to_shared(p)); }

__device__ void wait(Barrier *barrier, int parity)
{
    while (!ptx::mbarrier_try_wait_parity(barrier, parity)) { }
}

__device__ void load_tile(void *tile, const CUtensorMap &map, int x, int y, Barrier *barrier)
{
    const int at[2] = {x, y};
    ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, tile, &map, at, barrier);
}

__device__ void expect(Barrier *barrier, Word bytes)
{
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, barrier, bytes);
}

// y = 3 x + 1 by tiles of 32 x 16 that hang over the edges: loads fill with zeros, stores clip.
extern "C" __global__ void tma_tiles(const __grid_constant__ CUtensorMap x,
                                     const __grid_constant__ CUtensorMap y, float *sums)
{
    __shared__ alignas(128) float tile[16][32];
    __shared__ Barrier full;
    const int t = threadIdx.x;
    if (t == 0) {
        ptx::mbarrier_init(&full, 1);
        ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
        expect(&full, sizeof(tile));
        load_tile(tile, x, blockIdx.x * 32, blockIdx.y * 16, &full);
    }
    __syncthreads();
    wait(&full, 0);
    float sum = 0.0f;
    for (int r = 0; r < 16; r++) {
        sum += tile[r][t];
        tile[r][t] = 3.0f * tile[r][t] + 1.0f;
    }
    sums[(blockIdx.y * gridDim.x + blockIdx.x) * 32 + t] = sum;
    ptx::fence_proxy_async(ptx::space_shared);
    __syncthreads();
    if (t == 0) {
        const int at[2] = {static_cast<int>(blockIdx.x) * 32, static_cast<int>(blockIdx.y) * 16};
        ptx::cp_async_bulk_tensor(ptx::space_global, ptx::space_shared, &y, at, tile);
        ptx::cp_async_bulk_commit_group();
        ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());
    }
}

#define NAMES                                                                                      \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}"

// 128-byte swizzle: 8 rows of 128 bytes repeat every 1024 bytes; the hardware ignores "leading".
__device__ Long descriptor(const void *tile, int step)
{
    return ((shared(tile) + step * 32) & 0x3ffffull) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62;
}

__device__ void multiply(float (&d)[16], const void *a, const void *b, int step)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 " NAMES
                 ", %16, %17, 1, 1, 1, 0, 0;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),
                   "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
                   "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
                 : "l"(descriptor(a, step)), "l"(descriptor(b, step)));
}

// D = A B^T in tiles of 64 x 32 and steps of 64: one producer warp, one consumer warpgroup.
extern "C" __global__ void __launch_bounds__(256, 1)
tma_gemm(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, float *out,
         int n, int k)
{
    constexpr int STAGES = 3, A_BYTES = 64 * 128, B_BYTES = 32 * 128;
    __shared__ alignas(1024) unsigned char ta[STAGES][A_BYTES];
    __shared__ alignas(1024) unsigned char tb[STAGES][B_BYTES];
    __shared__ Barrier full[STAGES], empty[STAGES];
    const int row0 = blockIdx.y * 64, column0 = blockIdx.x * 32, steps = k / 64;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) {
            ptx::mbarrier_init(&full[s], 1);
            ptx::mbarrier_init(&empty[s], 1);
        }
        ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    }
    __syncthreads();
    if (threadIdx.x < 128) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 0)
            for (int step = 0; step < steps; step++) {
                const int s = step % STAGES;
                wait(&empty[s], (step / STAGES & 1) ^ 1);
                expect(&full[s], A_BYTES + B_BYTES);
                load_tile(ta[s], a, step * 64, row0, &full[s]);
                load_tile(tb[s], b, step * 64, column0, &full[s]);
            }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 120;");
        float d[16] = {};
        for (int step = 0; step < steps; step++) {
            const int s = step % STAGES;
            wait(&full[s], step / STAGES & 1);
            asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
            for (int part = 0; part < 4; part++) multiply(d, ta[s], tb[s], part);
            asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
            asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
            asm volatile("bar.sync 1, 128;" ::: "memory");
            if (threadIdx.x == 128) ptx::mbarrier_arrive(&empty[s]);
        }
        const int warp = threadIdx.x / 32 - 4, lane = threadIdx.x % 32;
        for (int i = 0; i < 16; i++)
            out[(row0 + warp * 16 + lane / 4 + (i / 2 % 2) * 8) * n + column0 + i / 4 * 8
                + lane % 4 * 2 + i % 2] = d[i];
    }
}

// Two blocks of a cluster each load half of a tile of 16 x 64 words and give it to both.
extern "C" __global__ void __cluster_dims__(2, 1, 1)
tma_multicast(const __grid_constant__ CUtensorMap x, int *y)
{
    __shared__ alignas(128) int tile[16][64];
    __shared__ Barrier full;
    Word rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    if (threadIdx.x == 0) {
        ptx::mbarrier_init(&full, 1);
        ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
        expect(&full, sizeof(tile));
    }
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
    if (threadIdx.x == 0) {
        const int at[2] = {0, static_cast<int>(blockIdx.x / 2 * 16 + rank * 8)};
        ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, tile[rank * 8], &x, at, &full, 3);
    }
    wait(&full, 0);
    for (int r = 0; r < 16; r++) y[(blockIdx.x * 16 + r) * 64 + threadIdx.x] = tile[r][threadIdx.x] + rank;
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// Every block adds its row to one sum, and takes the minimum, by bulk reductions.
extern "C" __global__ void bulk_reduce(const int *x, int *sums, const float *y, float *totals,
                                       int *least)
{
    __shared__ alignas(16) int words[64], mirror[64];
    __shared__ alignas(16) float floats[64];
    const int t = threadIdx.x;
    words[t] = x[blockIdx.x * 64 + t] + 1;
    mirror[63 - t] = x[blockIdx.x * 64 + t];
    floats[t] = y[blockIdx.x * 64 + t] * 2.0f;
    ptx::fence_proxy_async(ptx::space_shared);
    __syncthreads();
    if (t == 0) {
        ptx::cp_reduce_async_bulk(ptx::space_global, ptx::space_shared, ptx::op_add, sums, words, sizeof(words));
        ptx::cp_reduce_async_bulk(ptx::space_global, ptx::space_shared, ptx::op_add, totals, floats, sizeof(floats));
        ptx::cp_reduce_async_bulk(ptx::space_global, ptx::space_shared, ptx::op_min, least, mirror, sizeof(mirror));
        ptx::cp_async_bulk_commit_group();
        ptx::cp_async_bulk_wait_group(ptx::n32_t<0>());
    }
}

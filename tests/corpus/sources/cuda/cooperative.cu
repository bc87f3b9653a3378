// Cooperative groups: tiles, coalesced groups, cg::reduce, cg::inclusive_scan, grid-size loops.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>

namespace cg = cooperative_groups;

// out[t] = sum of its tile of 8 consecutive values; largest[t] their maximum.
extern "C" __global__ void tile_reduce(const int *x, int *sums, int *largest, int n)
{
    const cg::thread_block block = cg::this_thread_block();
    const auto tile = cg::tiled_partition<8>(block);
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const int value = i < n ? x[i] : 0;
    const int sum = cg::reduce(tile, value, cg::plus<int>());
    const int top = cg::reduce(tile, value, cg::greater<int>());
    if (tile.thread_rank() == 0) {
        sums[i / 8] = sum;
        largest[i / 8] = top;
    }
}

// Compaction with one atomic per coalesced group: the order of `out` is not defined.
extern "C" __global__ void compact_positive(const int *x, int *out, unsigned *count, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        if (x[i] > 0) {
            const cg::coalesced_group active = cg::coalesced_threads();
            unsigned base = 0;
            if (active.thread_rank() == 0) base = atomicAdd(count, active.size());
            out[active.shfl(base, 0) + active.thread_rank()] = x[i];
        }
    }
}

// Block sum of floats by warp tiles, then one tile over the partial sums.
extern "C" __global__ void block_sum(const float *x, float *sums, int n)
{
    __shared__ float partial[32];
    const cg::thread_block block = cg::this_thread_block();
    const auto warp = cg::tiled_partition<32>(block);
    float mine = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        mine += x[i];
    mine = cg::reduce(warp, mine, cg::plus<float>());
    if (warp.thread_rank() == 0) partial[warp.meta_group_rank()] = mine;
    block.sync();
    if (warp.meta_group_rank() == 0) {
        const float other = warp.thread_rank() < warp.meta_group_size()
                                ? partial[warp.thread_rank()] : 0.0f;
        const float all = cg::reduce(warp, other, cg::plus<float>());
        if (warp.thread_rank() == 0) sums[blockIdx.x] = all;
    }
}

// Inclusive scan within tiles of 16, and a labelled partition by parity.
extern "C" __global__ void tile_scan(const unsigned *x, unsigned *scan, unsigned *ranks)
{
    const auto tile = cg::tiled_partition<16>(cg::this_thread_block());
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    scan[i] = cg::inclusive_scan(tile, x[i], cg::plus<unsigned>());
    const cg::coalesced_group same = cg::labeled_partition(tile, x[i] & 3);
    ranks[i] = same.size() * 100 + same.thread_rank();
}

// WMMA on sizes that are no multiple of 16: tiles go through padded shared memory, zero-filled
// outside the matrices; the epilogue scales and adds a bias in registers of a second fragment.
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

constexpr int TILE = 16, PITCH = 24, WARPS = 4;

extern "C" __global__ void __launch_bounds__(WARPS * 32)
wmma_tails(const half *a, const half *b, const float *c, float *d, int m, int n, int k, float alpha,
           float beta)
{
    __shared__ half sa[WARPS][TILE * PITCH];
    __shared__ half sb[WARPS][TILE * PITCH];
    __shared__ float sd[WARPS][TILE * PITCH];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int row0 = blockIdx.y * TILE;
    const int column0 = (blockIdx.x * WARPS + warp) * TILE;
    if (column0 >= n) return;

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> product, bias;
    wmma::fill_fragment(product, 0.0f);
    for (int k0 = 0; k0 < k; k0 += TILE) {
        for (int i = lane; i < TILE * TILE; i += 32) {
            const int r = i / TILE, s = i % TILE;
            const bool in_a = row0 + r < m && k0 + s < k;
            const bool in_b = k0 + r < k && column0 + s < n;
            sa[warp][r * PITCH + s] = in_a ? a[(row0 + r) * k + k0 + s] : __float2half(0.0f);
            sb[warp][r * PITCH + s] = in_b ? b[(k0 + r) * n + column0 + s] : __float2half(0.0f);
        }
        __syncwarp();
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
        wmma::load_matrix_sync(fa, sa[warp], PITCH);
        wmma::load_matrix_sync(fb, sb[warp], PITCH);
        wmma::mma_sync(product, fa, fb, product);
        __syncwarp();
    }
    for (int i = lane; i < TILE * TILE; i += 32) {
        const int r = i / TILE, s = i % TILE;
        const bool inside = row0 + r < m && column0 + s < n;
        sd[warp][r * PITCH + s] = inside ? c[(row0 + r) * n + column0 + s] : 0.0f;
    }
    __syncwarp();
    wmma::load_matrix_sync(bias, sd[warp], PITCH, wmma::mem_row_major);
    for (int i = 0; i < bias.num_elements; i++) bias.x[i] = alpha * product.x[i] + beta * bias.x[i];
    wmma::store_matrix_sync(sd[warp], bias, PITCH, wmma::mem_row_major);
    __syncwarp();
    for (int i = lane; i < TILE * TILE; i += 32) {
        const int r = i / TILE, s = i % TILE;
        if (row0 + r < m && column0 + s < n) d[(row0 + r) * n + column0 + s] = sd[warp][r * PITCH + s];
    }
}

// The other two shapes, with float16 accumulators and column-major operands.
extern "C" __global__ void wmma_m32n8k16(const half *a, const half *b, half *d, int k)
{
    wmma::fragment<wmma::matrix_a, 32, 8, 16, half, wmma::col_major> fa;
    wmma::fragment<wmma::matrix_b, 32, 8, 16, half, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 32, 8, 16, half> fd;
    wmma::fill_fragment(fd, __float2half(0.0f));
    for (int i = 0; i < k; i += 16) {
        wmma::load_matrix_sync(fa, a + i * 32, 32);
        wmma::load_matrix_sync(fb, b + i, k);
        wmma::mma_sync(fd, fa, fb, fd);
    }
    wmma::store_matrix_sync(d, fd, 32, wmma::mem_col_major);
}

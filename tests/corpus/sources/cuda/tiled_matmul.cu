// FP32 matmul with shared tiles and a 4 x 4 register tile per thread; any m, n, k.
constexpr int TILE = 64, STEP = 16, PER_THREAD = 4;

extern "C" __global__ void __launch_bounds__(256)
tiled_matmul(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ d, int m,
             int n, int k)
{
    __shared__ float sa[STEP][TILE + 4];
    __shared__ float sb[STEP][TILE];
    const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    const int row0 = blockIdx.y * TILE, column0 = blockIdx.x * TILE;
    float sums[PER_THREAD][PER_THREAD] = {};

    for (int k0 = 0; k0 < k; k0 += STEP) {
        for (int i = threadIdx.x; i < TILE * STEP; i += 256) {
            const int r = i / STEP, s = i % STEP;
            sa[s][r] = row0 + r < m && k0 + s < k ? a[(row0 + r) * k + k0 + s] : 0.0f;
        }
        for (int i = threadIdx.x; i < TILE * STEP; i += 256) {
            const int r = i / TILE, s = i % TILE;
            sb[r][s] = k0 + r < k && column0 + s < n ? b[(k0 + r) * n + column0 + s] : 0.0f;
        }
        __syncthreads();
#pragma unroll
        for (int s = 0; s < STEP; s++) {
            const float4 va = *reinterpret_cast<const float4 *>(&sa[s][ty * PER_THREAD]);
            const float4 vb = *reinterpret_cast<const float4 *>(&sb[s][tx * PER_THREAD]);
            const float ra[4] = {va.x, va.y, va.z, va.w}, rb[4] = {vb.x, vb.y, vb.z, vb.w};
#pragma unroll
            for (int i = 0; i < PER_THREAD; i++)
#pragma unroll
                for (int j = 0; j < PER_THREAD; j++) sums[i][j] = fmaf(ra[i], rb[j], sums[i][j]);
        }
        __syncthreads();
    }
    for (int i = 0; i < PER_THREAD; i++)
        for (int j = 0; j < PER_THREAD; j++) {
            const int r = row0 + ty * PER_THREAD + i, s = column0 + tx * PER_THREAD + j;
            if (r < m && s < n) d[r * n + s] = sums[i][j];
        }
}

// Warp shuffles: a block scan, butterfly reductions of several types, rotation, redux.
extern "C" __global__ void block_scan(const int *x, int *scan, int n)
{
    __shared__ int totals[32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    int value = i < n ? x[i] : 0;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        const int below = __shfl_up_sync(0xffffffffu, value, step);
        if (lane >= step) value += below;
    }
    if (lane == 31) totals[warp] = value;
    __syncthreads();
    if (warp == 0) {
        int total = lane < blockDim.x / 32 ? totals[lane] : 0;
        for (int step = 1; step < 32; step *= 2) {
            const int below = __shfl_up_sync(0xffffffffu, total, step);
            if (lane >= step) total += below;
        }
        totals[lane] = total;
    }
    __syncthreads();
    if (warp > 0) value += totals[warp - 1];
    if (i < n) scan[i] = value;
}

extern "C" __global__ void butterflies(const float *x, float *sums, const double *y, double *tops,
                                       const unsigned *z, unsigned *words)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const int lane = threadIdx.x % 32;
    float sum = x[i];
    double top = y[i];
    for (int mask = 16; mask > 0; mask /= 2) {
        sum += __shfl_xor_sync(0xffffffffu, sum, mask);
        top = fmax(top, __shfl_xor_sync(0xffffffffu, top, mask));
    }
    if (lane == 0) {
        sums[i / 32] = sum;
        tops[i / 32] = top;
    }
    // A gather by a lane number in a register, a segment of width 8, a shift down, then redux.
    const unsigned w = z[i];
    const unsigned picked = __shfl_sync(0xffffffffu, w, (lane * 7 + 3) % 32);
    const unsigned segment = __shfl_sync(0xffffffffu, w, 5, 8);
    const unsigned down = __shfl_down_sync(0xffffffffu, w, 3, 16);
    words[i * 4 + 0] = picked;
    words[i * 4 + 1] = segment;
    words[i * 4 + 2] = down;
    words[i * 4 + 3] = __reduce_add_sync(0xffffffffu, w) ^ __reduce_max_sync(0xffffffffu, w)
                       ^ __reduce_and_sync(0xffffffffu, w | 3u) ^ __reduce_xor_sync(0xffffffffu, w)
                       ^ static_cast<unsigned>(__reduce_min_sync(0xffffffffu, static_cast<int>(w)));
}

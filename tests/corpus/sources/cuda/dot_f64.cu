// Double-precision dot product: grid-size loop, warp shuffle of doubles, one partial sum per block.
extern "C" __global__ void dot_f64(const double *x, const double *y, double *partial, int n)
{
    __shared__ double sums[32];
    double sum = 0.0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        sum = fma(x[i], y[i], sum);
    for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffffu, sum, step);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        double all = 0.0;
        for (unsigned w = 0; w < blockDim.x / 32; w++) all += sums[w];
        partial[blockIdx.x] = all;
    }
}

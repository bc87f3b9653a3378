// Softmax and layer norm over rows, one block per row.
constexpr float LOWEST = -3.402823466e38f;

__device__ float block_total(float value, float *scratch)
{
    for (int step = 16; step > 0; step /= 2) value += __shfl_down_sync(0xffffffffu, value, step);
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
    __syncthreads();
    float all = 0.0f;
    for (unsigned i = 0; i < blockDim.x / 32; i++) all += scratch[i];
    __syncthreads();
    return all;
}

__device__ float block_largest(float value, float *scratch)
{
    for (int step = 16; step > 0; step /= 2)
        value = fmaxf(value, __shfl_down_sync(0xffffffffu, value, step));
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
    __syncthreads();
    float all = LOWEST;
    for (unsigned i = 0; i < blockDim.x / 32; i++) all = fmaxf(all, scratch[i]);
    __syncthreads();
    return all;
}

extern "C" __global__ void softmax(const float *x, float *y, int columns)
{
    __shared__ float scratch[32];
    const float *row = x + static_cast<long long>(blockIdx.x) * columns;
    float *result = y + static_cast<long long>(blockIdx.x) * columns;
    float top = LOWEST;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) top = fmaxf(top, row[i]);
    top = block_largest(top, scratch);
    float sum = 0.0f;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += expf(row[i] - top);
    sum = block_total(sum, scratch);
    for (int i = threadIdx.x; i < columns; i += blockDim.x) result[i] = expf(row[i] - top) / sum;
}

extern "C" __global__ void layer_norm(const float *x, const float *gain, const float *bias,
                                      float *y, int columns, float epsilon)
{
    __shared__ float scratch[32];
    const float *row = x + static_cast<long long>(blockIdx.x) * columns;
    float *result = y + static_cast<long long>(blockIdx.x) * columns;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += row[i];
    const float mean = block_total(sum, scratch) / columns;
    float squares = 0.0f;
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        squares += (row[i] - mean) * (row[i] - mean);
    const float scale = rsqrtf(block_total(squares, scratch) / columns + epsilon);
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        result[i] = (row[i] - mean) * scale * gain[i] + bias[i];
}

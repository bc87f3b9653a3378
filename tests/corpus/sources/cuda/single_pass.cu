// One-pass algorithms across blocks: the last block reduces; a decoupled look-back scan.
#include <cuda/atomic>

__device__ unsigned blocks_done = 0;

extern "C" __global__ void last_block_sum(const float *x, float *partial, float *total, int n)
{
    __shared__ float scratch[128];
    __shared__ bool last;
    const int t = threadIdx.x;
    float sum = 0.0f;
    for (int i = blockIdx.x * blockDim.x + t; i < n; i += gridDim.x * blockDim.x) sum += x[i];
    scratch[t] = sum;
    for (int half = 64; half > 0; half /= 2) {
        __syncthreads();
        if (t < half) scratch[t] += scratch[t + half];
    }
    if (t == 0) {
        partial[blockIdx.x] = scratch[0];
        __threadfence();
        last = atomicInc(&blocks_done, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && t == 0) {
        float all = 0.0f;
        for (unsigned b = 0; b < gridDim.x; b++) all += reinterpret_cast<volatile float *>(partial)[b];
        *total = all;
    }
}

// state word: (flag << 32) | value; flag 1 = sum of the block, 2 = sum of everything up to it.
// Blocks take their number from a counter, so a block only waits for blocks that have started.
extern "C" __global__ void look_back_scan(const unsigned *x, unsigned *y,
                                          unsigned long long *state, unsigned *counter)
{
    __shared__ unsigned number, before;
    __shared__ unsigned values[128];
    const int t = threadIdx.x;
    if (t == 0) number = atomicAdd(counter, 1u);
    __syncthreads();
    const int i = number * 128 + t;
    values[t] = x[i];
    for (int step = 1; step < 128; step *= 2) {
        __syncthreads();
        const unsigned add = t >= step ? values[t - step] : 0;
        __syncthreads();
        values[t] += add;
    }
    __syncthreads();
    if (t == 0) {
        using Word = cuda::atomic_ref<unsigned long long, cuda::thread_scope_device>;
        const unsigned long long mine = values[127];
        unsigned prefix = 0;
        if (number > 0) {
            Word(state[number]).store((1ull << 32) | mine, cuda::memory_order_release);
            for (int at = number - 1; at >= 0; at--) {
                unsigned long long word;
                do {
                    word = Word(state[at]).load(cuda::memory_order_acquire);
                } while (word >> 32 == 0);
                prefix += static_cast<unsigned>(word);
                if (word >> 32 == 2) break;
            }
        }
        Word(state[number]).store((2ull << 32) | ((mine + prefix) & 0xffffffffull),
                                  cuda::memory_order_release);
        before = prefix;
    }
    __syncthreads();
    y[i] = before + values[t];
}

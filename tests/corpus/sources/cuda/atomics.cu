// Atomics: integer, floating, packed halves, 64-bit, compare-and-swap loops, shared and global.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

extern "C" __global__ void histogram(const unsigned char *x, unsigned *bins, int n)
{
    __shared__ unsigned local[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x) local[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&local[x[i]], 1u);
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x)
        if (local[i]) atomicAdd(&bins[i], local[i]);
}

// Multiplication has no atomic of its own: a compare-and-swap loop per element.
extern "C" __global__ void atomic_product(const unsigned *x, const int *group, unsigned *products,
                                          int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned *target = &products[group[i]];
    unsigned seen = *target, expected;
    do {
        expected = seen;
        seen = atomicCAS(target, expected, expected * x[i]);
    } while (seen != expected);
}

__device__ float atomic_max_float(float *address, float value)
{
    int *words = reinterpret_cast<int *>(address);
    int old = *words;
    while (__int_as_float(old) < value) {
        const int expected = old;
        old = atomicCAS(words, expected, __float_as_int(value));
        if (old == expected) break;
    }
    return __int_as_float(old);
}

// results: [min s32, max s32, and, or, xor, inc, dec, exchange] as words, plus float and 64-bit ones.
extern "C" __global__ void atomic_kinds(const int *x, int *words, float *floats, double *doubles,
                                        unsigned long long *longs, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const int v = x[i];
    atomicMin(&words[0], v);
    atomicMax(&words[1], v);
    atomicAnd(&words[2], v | 0xff);
    atomicOr(&words[3], v & 0xf0f0);
    atomicXor(&words[4], v);
    atomicInc(reinterpret_cast<unsigned *>(&words[5]), 1000u);
    atomicDec(reinterpret_cast<unsigned *>(&words[6]), 700u);
    atomicSub(&words[7], v & 7);
    atomicMin(reinterpret_cast<unsigned *>(&words[8]), static_cast<unsigned>(v));
    atomicMax(reinterpret_cast<unsigned *>(&words[9]), static_cast<unsigned>(v));
    if (i == 5) atomicExch(&words[10], v);
    atomicAdd(&floats[0], static_cast<float>(v & 1023));
    atomic_max_float(&floats[1], static_cast<float>(v) * 0.5f);
    atomicAdd(&doubles[0], static_cast<double>(v) * 0.25);
    atomicAdd(&longs[0], static_cast<unsigned long long>(static_cast<unsigned>(v)) << 8);
    atomicMax(&longs[1], static_cast<unsigned long long>(static_cast<unsigned>(v)) * 3ull);
    atomicCAS(&longs[2], 0ull, 0x123456789abcdefull);
    atomicXor(&longs[3], static_cast<unsigned long long>(static_cast<long long>(v)));
}

// Small integers, so that the order of the half additions cannot show.
extern "C" __global__ void atomic_halves(const __half2 *x, __half2 *sums, const __nv_bfloat162 *y,
                                         __nv_bfloat162 *bf_sums, __half *single, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    atomicAdd(&sums[i % 4], x[i]);
    atomicAdd(&bf_sums[i % 8], y[i]);
    atomicAdd(&single[i % 2], __low2half(x[i]));
}

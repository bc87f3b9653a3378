// FP16 and BF16 GEMM written with inline PTX: cp.async, XOR swizzle, ldmatrix, mma.sync.
// D = A B, A is M x K row-major, B is N x K row-major (so "col"), 64 x 64 tiles, 4 warps.
#include <cuda_fp16.h>

constexpr int TILE = 64, STEP = 32, STAGES = 3;

__device__ unsigned shared_address(const void *p)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

__device__ void copy16(unsigned to, const void *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

// Rows of 32 halves (64 bytes, four chunks of 16 bytes); chunk ^= (row / 2) % 4.
__device__ unsigned chunk_offset(int row, int chunk)
{
    return row * 64 + ((chunk ^ ((row >> 1) & 3)) << 4);
}

__device__ void load_matrices(unsigned (&r)[4], unsigned at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}

template <bool BF16>
__device__ void multiply(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1)
{
    if constexpr (BF16)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    else
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <bool BF16>
__device__ void gemm_tile(const unsigned short *a, const unsigned short *b, float *d, int n, int k)
{
    __shared__ alignas(128) unsigned short sa[STAGES][TILE * STEP];
    __shared__ alignas(128) unsigned short sb[STAGES][TILE * STEP];
    const int t = threadIdx.x, warp = t / 32, lane = t % 32;
    const int row0 = blockIdx.y * TILE, column0 = blockIdx.x * TILE;
    const int steps = k / STEP;

    auto fetch = [&](int step) {
        if (step < steps) {
            for (int i = t; i < TILE * 4; i += 128) {
                const int r = i / 4, c = i % 4;
                copy16(shared_address(sa[step % STAGES]) + chunk_offset(r, c),
                       a + (row0 + r) * k + step * STEP + c * 8);
                copy16(shared_address(sb[step % STAGES]) + chunk_offset(r, c),
                       b + (column0 + r) * k + step * STEP + c * 8);
            }
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    };

    float sums[8][4] = {};
    fetch(0);
    fetch(1);
    for (int step = 0; step < steps; step++) {
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        __syncthreads();
        fetch(step + 2);
        const unsigned base_a = shared_address(sa[step % STAGES]);
        const unsigned base_b = shared_address(sb[step % STAGES]);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            unsigned fa[4];
            load_matrices(fa, base_a + chunk_offset(warp * 16 + lane % 16, half * 2 + lane / 16));
#pragma unroll
            for (int pair = 0; pair < 4; pair++) {
                unsigned fb[4];
                const int row = pair * 16 + lane % 8 + (lane / 16) * 8;
                load_matrices(fb, base_b + chunk_offset(row, half * 2 + (lane / 8) % 2));
                multiply<BF16>(sums[pair * 2], fa, fb[0], fb[1]);
                multiply<BF16>(sums[pair * 2 + 1], fa, fb[2], fb[3]);
            }
        }
    }
    for (int j = 0; j < 8; j++) {
        const int r = row0 + warp * 16 + lane / 4, c = column0 + j * 8 + lane % 4 * 2;
        *reinterpret_cast<float2 *>(d + r * n + c) = make_float2(sums[j][0], sums[j][1]);
        *reinterpret_cast<float2 *>(d + (r + 8) * n + c) = make_float2(sums[j][2], sums[j][3]);
    }
}

extern "C" __global__ void __launch_bounds__(128)
gemm_f16(const unsigned short *a, const unsigned short *b, float *d, int n, int k)
{
    gemm_tile<false>(a, b, d, n, k);
}

extern "C" __global__ void __launch_bounds__(128)
gemm_bf16(const unsigned short *a, const unsigned short *b, float *d, int n, int k)
{
    gemm_tile<true>(a, b, d, n, k);
}

// One warpgroup, a 64 x 64 tile, wgmma.mma_async in four ways. A and B are 64 rows of 128 bytes
// along K (64 halves, 128 bytes of FP8 or INT8), B by columns of the product ("K-major" both).
#define ACCUMULATORS32(c)                                                                          \
    "+" c(d[0]), "+" c(d[1]), "+" c(d[2]), "+" c(d[3]), "+" c(d[4]), "+" c(d[5]), "+" c(d[6]),     \
    "+" c(d[7]), "+" c(d[8]), "+" c(d[9]), "+" c(d[10]), "+" c(d[11]), "+" c(d[12]), "+" c(d[13]), \
    "+" c(d[14]), "+" c(d[15]), "+" c(d[16]), "+" c(d[17]), "+" c(d[18]), "+" c(d[19]),            \
    "+" c(d[20]), "+" c(d[21]), "+" c(d[22]), "+" c(d[23]), "+" c(d[24]), "+" c(d[25]),            \
    "+" c(d[26]), "+" c(d[27]), "+" c(d[28]), "+" c(d[29]), "+" c(d[30]), "+" c(d[31])
#define NAMES32                                                                                    \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "  \
    "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}"

using Word = unsigned;
using Long = unsigned long long;

// Where the 16-byte chunk `chunk` of `row` lies: swizzled by 128 bytes, or in 8 x 16 byte cores.
template <bool SWIZZLED> __device__ int place(int row, int chunk)
{
    return SWIZZLED ? row * 128 + ((chunk ^ (row & 7)) << 4)
                    : ((row >> 3) * 8 + chunk) * 128 + (row & 7) * 16;
}

template <bool SWIZZLED> __device__ void fill(unsigned char *tile, const uint4 *x)
{
    for (int i = threadIdx.x; i < 64 * 8; i += 128)
        *reinterpret_cast<uint4 *>(tile + place<SWIZZLED>(i / 8, i % 8)) = x[i];
}

// Matrix descriptor: address, then the byte offsets between cores along K and along rows.
template <bool SWIZZLED> __device__ Long descriptor(const void *tile, int step)
{
    const Long address = static_cast<Long>(__cvta_generic_to_shared(tile)) + step * (SWIZZLED ? 32 : 256);
    const Long leading = SWIZZLED ? 1 : 128 >> 4, stride = 1024 >> 4;
    return (address & 0x3ffff) >> 4 | leading << 16 | stride << 32
           | static_cast<Long>(SWIZZLED) << 62;
}

__device__ void fences()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ void finish()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}

template <typename T> __device__ void store(T *out, const T (&d)[32])
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int j = 0; j < 8; j++)
        for (int i = 0; i < 4; i++)
            out[(warp * 16 + lane / 4 + (i / 2) * 8) * 64 + j * 8 + lane % 4 * 2 + i % 2] = d[j * 4 + i];
}

#define SHARED_KERNEL(name, SWIZZLED, type, constraint, opcode, scales)                            \
    extern "C" __global__ void __launch_bounds__(128)                                              \
    name(const uint4 *a, const uint4 *b, type *out)                                                \
    {                                                                                              \
        __shared__ alignas(1024) unsigned char ta[8192], tb[8192];                                 \
        fill<SWIZZLED>(ta, a);                                                                     \
        fill<SWIZZLED>(tb, b);                                                                     \
        fences();                                                                                  \
        type d[32] = {};                                                                           \
        for (int step = 0; step < 4; step++)                                                       \
            asm volatile("{\n .reg .pred p;\n setp.ne.b32 p, %34, 0;\n"                            \
                         "wgmma.mma_async.sync.aligned." opcode " " NAMES32                        \
                         ", %32, %33, p" scales ";\n}"                                             \
                         : ACCUMULATORS32(constraint)                                              \
                         : "l"(descriptor<SWIZZLED>(ta, step)),                                    \
                           "l"(descriptor<SWIZZLED>(tb, step)), "r"(step));                        \
        finish();                                                                                  \
        store(out, d);                                                                             \
    }

SHARED_KERNEL(wgmma_f16, true, float, "f", "m64n64k16.f32.f16.f16", ", 1, 1, 0, 0")
SHARED_KERNEL(wgmma_bf16, false, float, "f", "m64n64k16.f32.bf16.bf16", ", 1, -1, 0, 0")
SHARED_KERNEL(wgmma_e4m3, true, float, "f", "m64n64k32.f32.e4m3.e4m3", ", 1, 1")
SHARED_KERNEL(wgmma_s8, false, int, "r", "m64n64k32.s32.s8.s8", "")

// A from registers: the fragment of m16n8k16, warp by warp.
extern "C" __global__ void __launch_bounds__(128)
wgmma_registers(const uint4 *a, const uint4 *b, float *out)
{
    __shared__ alignas(1024) unsigned char tb[8192];
    fill<true>(tb, b);
    fences();
    float d[32] = {};
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const Word *row = reinterpret_cast<const Word *>(a) + (warp * 16 + lane / 4) * 32 + lane % 4;
    Word r[4][4];
    for (int step = 0; step < 4; step++) {
        const Word *at = row + step * 8;
        r[step][0] = at[0], r[step][1] = at[8 * 32], r[step][2] = at[4], r[step][3] = at[8 * 32 + 4];
    }
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int step = 0; step < 4; step++)
        asm volatile("{\n .reg .pred p;\n setp.ne.b32 p, %37, 0;\n"
                     "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 " NAMES32
                     ", {%32, %33, %34, %35}, %36, p, 1, 1, 0;\n}"
                     : ACCUMULATORS32("f")
                     : "r"(r[step][0]), "r"(r[step][1]), "r"(r[step][2]), "r"(r[step][3]),
                       "l"(descriptor<true>(tb, step)), "r"(step));
    finish();
    store(out, d);
}

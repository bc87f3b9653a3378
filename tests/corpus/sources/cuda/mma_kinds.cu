// One warp, one 16 x 8 tile, every operand type of mma.sync whose A tile is 16 rows of 32 bytes.
// A is 16 x (8 words per step), B is 8 columns of as many words, both packed along K; the fragments
// of all those shapes are the same words, so one loader serves them all.
#define FRAGMENTS                                                                                  \
    const int lane = threadIdx.x, group = lane / 4, t = lane % 4, pitch = steps * 8;
#define LOAD(step)                                                                                 \
    const unsigned *row = a + group * pitch + step * 8 + t, *column = b + group * pitch + step * 8 + t; \
    const unsigned a0 = row[0], a1 = row[8 * pitch], a2 = row[4], a3 = row[8 * pitch + 4];        \
    const unsigned b0 = column[0], b1 = column[4];

#define MMA_KERNEL(name, opcode, type, constraint)                                                 \
    extern "C" __global__ void name(const unsigned *a, const unsigned *b, type *d, int steps)      \
    {                                                                                              \
        FRAGMENTS                                                                                  \
        type c0 = 0, c1 = 0, c2 = 0, c3 = 0;                                                       \
        for (int step = 0; step < steps; step++) {                                                 \
            LOAD(step)                                                                             \
            asm volatile(opcode " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
                         : "+" constraint(c0), "+" constraint(c1), "+" constraint(c2),             \
                           "+" constraint(c3)                                                      \
                         : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));                  \
        }                                                                                          \
        d[group * 8 + t * 2] = c0, d[group * 8 + t * 2 + 1] = c1;                                  \
        d[group * 8 + t * 2 + 64] = c2, d[group * 8 + t * 2 + 65] = c3;                            \
    }

MMA_KERNEL(mma_tf32, "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", float, "f")
MMA_KERNEL(mma_s8, "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", int, "r")
MMA_KERNEL(mma_u8s8, "mma.sync.aligned.m16n8k32.row.col.satfinite.s32.u8.s8.s32", int, "r")
MMA_KERNEL(mma_s4, "mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32", int, "r")
MMA_KERNEL(mma_u4s4, "mma.sync.aligned.m16n8k64.row.col.s32.u4.s4.s32", int, "r")
MMA_KERNEL(mma_b1_xor, "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.xor.popc", int, "r")
MMA_KERNEL(mma_b1_and, "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc", int, "r")
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 890
MMA_KERNEL(mma_e4m3, "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32", float, "f")
MMA_KERNEL(mma_e5m2_e4m3, "mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e4m3.f32", float, "f")
#endif

// float16 accumulators: two words of D.
extern "C" __global__ void mma_f16_f16(const unsigned *a, const unsigned *b, unsigned *d, int steps)
{
    FRAGMENTS
    unsigned c0 = 0, c1 = 0;
    for (int step = 0; step < steps; step++) {
        LOAD(step)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, "
                     "{%6, %7}, {%0, %1};" : "+r"(c0), "+r"(c1)
                     : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
    }
    d[group * 4 + t] = c0;
    d[group * 4 + t + 32] = c1;
}

// 8 x 8 x 4 in double precision; A is 8 x 4 steps, B is 8 columns of 4 steps.
extern "C" __global__ void mma_f64(const double *a, const double *b, double *d, int steps)
{
    const int lane = threadIdx.x, group = lane / 4, t = lane % 4;
    double c0 = 0.0, c1 = 0.0;
    for (int step = 0; step < steps; step++) {
        const double x = a[group * steps * 4 + step * 4 + t], y = b[group * steps * 4 + step * 4 + t];
        asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
                     : "+d"(c0), "+d"(c1) : "d"(x), "d"(y));
    }
    d[group * 8 + t * 2] = c0;
    d[group * 8 + t * 2 + 1] = c1;
}

// Matrix movement: ldmatrix plain and transposed, one and two matrices, and movmatrix.
extern "C" __global__ void matrix_moves(const unsigned short *x, unsigned *out)
{
    __shared__ alignas(16) unsigned short tile[16 * 8];
    const int lane = threadIdx.x;
    for (int i = lane; i < 128; i += 32) tile[i] = x[i];
    __syncwarp();
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(tile)) + (lane % 16) * 16;
    unsigned r[6];
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(r[0]) : "r"(at));
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[1]), "=r"(r[2]) : "r"(at));
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[3]), "=r"(r[4]) : "r"(at));
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(r[5]) : "r"(r[2]));
    for (int i = 0; i < 6; i++) out[i * 32 + lane] = r[i];
}

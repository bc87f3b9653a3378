// Instructions that compilers emit rarely, through inline PTX.
#define BINARY(text) asm volatile(text : "=r"(r) : "r"(x), "r"(y), "r"(z)); mine[slot++] = r;

extern "C" __global__ void odd_integers(const unsigned *a, const unsigned *b, const unsigned *c,
                                        unsigned *out, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const unsigned x = a[i], y = b[i], z = c[i];
    unsigned r, *mine = out + i * 24;
    int slot = 0;
    BINARY("lop3.b32 %0, %1, %2, %3, 0x96;")
    BINARY("lop3.b32 %0, %1, %2, %3, 0xd8;")
    BINARY("bfe.u32 %0, %1, %2, %3;")
    BINARY("bfe.s32 %0, %1, %2, %3;")
    BINARY("bfi.b32 %0, %1, %2, 5, 11;")
    BINARY("bfind.u32 %0, %1;")
    BINARY("bfind.shiftamt.s32 %0, %1;")
    BINARY("cnot.b32 %0, %1;")
    BINARY("slct.u32.s32 %0, %1, %2, %3;")
    BINARY("prmt.b32.f4e %0, %1, %2, %3;")
    BINARY("prmt.b32.rc8 %0, %1, %2, %3;")
    BINARY("prmt.b32.ecl %0, %1, %2, %3;")
    BINARY("mad.hi.s32 %0, %1, %2, %3;")
    BINARY("mad24.lo.u32 %0, %1, %2, %3;")
    BINARY("mul24.hi.s32 %0, %1, %2;")
    BINARY("add.sat.s32 %0, %1, %2;")
    BINARY("sub.sat.s32 %0, %1, %2;")
    BINARY("shf.l.clamp.b32 %0, %1, %2, %3;")
    BINARY("shf.r.wrap.b32 %0, %1, %2, %3;")
    BINARY("dp2a.hi.u32.u32 %0, %1, %2, %3;")
    BINARY("szext.wrap.s32 %0, %1, %2;")
    BINARY("bmsk.clamp.b32 %0, %1, %2;")
    BINARY("set.le.and.u32.s32 %0, %1, %2, 1;")
    BINARY("fns.b32 %0, %1, 3, 2;")
}

extern "C" __global__ void odd_floats(const float *a, const float *b, float *out, unsigned *words,
                                      int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float x = a[i], y = b[i];
    float r, *mine = out + i * 12;
    unsigned w;
#define FLOAT(text) asm volatile(text : "=f"(r) : "f"(x), "f"(y)); *mine++ = r;
    FLOAT("add.rz.f32 %0, %1, %2;")
    FLOAT("add.rm.ftz.f32 %0, %1, %2;")
    FLOAT("mul.rp.f32 %0, %1, %2;")
    FLOAT("mul.ftz.sat.f32 %0, %1, %2;")
    FLOAT("fma.rz.f32 %0, %1, %2, %1;")
    FLOAT("copysign.f32 %0, %1, %2;")
    FLOAT("min.NaN.f32 %0, %1, %2;")
    FLOAT("max.xorsign.abs.f32 %0, %1, %2;")
    FLOAT("neg.ftz.f32 %0, %1;")
    FLOAT("cvt.rzi.f32.f32 %0, %1;")
    FLOAT("div.rz.f32 %0, %1, %2;")
    FLOAT("sqrt.rm.f32 %0, %1;")
#define TEST(kind)                                                                                 \
    asm volatile("{ .reg .pred p; testp." kind ".f32 p, %1; selp.u32 %0, 1, 0, p; }"               \
                 : "=r"(w) : "f"(x));                                                              \
    bits = bits * 2 + w;
    unsigned bits = 0;
    TEST("finite") TEST("infinite") TEST("number") TEST("notanumber") TEST("normal") TEST("subnormal")
    asm volatile("{ .reg .pred p, q; setp.lt.and.f32 p|q, %1, %2, 1; selp.u32 %0, 5, 9, p;"
                 " @q add.u32 %0, %0, 100; }" : "=r"(w) : "f"(x), "f"(y));
    words[i * 2] = bits;
    words[i * 2 + 1] = w;
}

// cp.async that zero-fills, prefetches, cache policies, predicated and vector accesses.
extern "C" __global__ void odd_memory(const float *x, float *y, int n)
{
    __shared__ alignas(16) float tile[64 * 4];
    const int t = threadIdx.x;
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(tile + t * 4));
    const int left = n - t * 4;
    const int bytes = left <= 0 ? 0 : left >= 4 ? 16 : left * 4;
    asm volatile("prefetch.global.L2 [%0];" ::"l"(x));
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;"
                 ::"r"(at), "l"(x + (left > 0 ? t * 4 : 0)), "r"(bytes) : "memory");
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
    float4 v;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(at));
    unsigned long long policy;
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 0.5;" : "=l"(policy));
    float first;
    asm volatile("ld.global.nc.L1::no_allocate.L2::cache_hint.f32 %0, [%1], %2;"
                 : "=f"(first) : "l"(x), "l"(policy));
    asm volatile("st.global.L1::evict_last.v4.f32 [%0], {%1, %2, %3, %4};"
                 ::"l"(y + t * 4), "f"(v.x + first), "f"(v.y), "f"(v.z), "f"(v.w) : "memory");
}

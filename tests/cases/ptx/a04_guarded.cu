extern "C" __global__ void k(unsigned *p) {
#ifdef __CUDA_ARCH_FAMILY_SPECIFIC__
    float d0 = 0, d1 = 0, d2 = 0, d3 = 0;
    asm volatile("mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e2m1.f32 "
        "{%0,%1,%2,%3}, {%4,%4,%4,%4}, {%4,%4}, {%0,%1,%2,%3};"
        : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3) : "r"(p[0]));
    p[0] = __float_as_uint(d0);
#else
    __trap();
#endif
}

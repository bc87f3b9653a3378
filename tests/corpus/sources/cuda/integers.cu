// Integer arithmetic: 64-bit division, wide products, bit fields, byte permutes, dp4a, SIMD bytes.
extern "C" __global__ void divide64(const long long *a, const long long *b, long long *out, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const unsigned long long ua = a[i], ub = b[i];
    out[i * 6 + 0] = a[i] / b[i];
    out[i * 6 + 1] = a[i] % b[i];
    out[i * 6 + 2] = static_cast<long long>(ua / ub);
    out[i * 6 + 3] = static_cast<long long>(ua % ub);
    out[i * 6 + 4] = __mul64hi(a[i], b[i]);
    out[i * 6 + 5] = static_cast<long long>(__umul64hi(ua, ub));
}

extern "C" __global__ void bit_operations(const unsigned *a, const unsigned *b, unsigned *out,
                                          int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const unsigned x = a[i], y = b[i];
    const int sx = x, sy = y;
    unsigned *mine = out + i * 24;
    mine[0] = __popc(x) * 64 + __clz(x);
    mine[1] = __brev(x);
    mine[2] = __ffs(x) + __ffsll(static_cast<long long>(x) << 20);
    mine[3] = __byte_perm(x, y, 0x3715);
    mine[4] = __funnelshift_l(x, y, y);
    mine[5] = __funnelshift_rc(x, y, y & 63);
    mine[6] = __umulhi(x, y);
    mine[7] = __mulhi(sx, sy);
    mine[8] = __dp4a(sx, sy, 1000);
    mine[9] = __dp4a(x, y, 1000u);
    mine[10] = __dp2a_lo(sx, sy, -7);
    mine[11] = __sad(sx, sy, 5u);
    mine[12] = __usad(x, y, 9u);
    mine[13] = __mul24(sx, sy);
    mine[14] = __umul24(x, y);
    mine[15] = __hadd(sx, sy);
    mine[16] = __urhadd(x, y);
    mine[17] = __vadd4(x, y);
    mine[18] = __vabsdiffu4(x, y);
    mine[19] = __vmaxs2(x, y);
    mine[20] = sx / (sy | 1);
    mine[21] = x % (y | 1u);
    mine[22] = (sx >> (y & 31)) ^ (x >> (y & 31)) ^ (x << (y & 31));
    mine[23] = abs(sx) + (sx < sy) + 2 * (x < y);
}

// 128-bit arithmetic by carry chains, and wide multiply-adds.
extern "C" __global__ void wide_integers(const unsigned long long *a, const unsigned long long *b,
                                         unsigned long long *out, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const unsigned __int128 x = (static_cast<unsigned __int128>(a[i]) << 64) | b[i];
    const unsigned __int128 y = (static_cast<unsigned __int128>(b[i]) << 64) | ~a[i];
    const unsigned __int128 sum = x + y, difference = x - y, product = x * y;
    unsigned long long *mine = out + i * 8;
    mine[0] = static_cast<unsigned long long>(sum);
    mine[1] = static_cast<unsigned long long>(sum >> 64);
    mine[2] = static_cast<unsigned long long>(difference);
    mine[3] = static_cast<unsigned long long>(difference >> 64);
    mine[4] = static_cast<unsigned long long>(product);
    mine[5] = static_cast<unsigned long long>(product >> 64);
    mine[6] = static_cast<unsigned long long>(x >> (a[i] & 127));
    mine[7] = __clzll(a[i]) * 1000 + __popcll(b[i]) + (__brevll(a[i]) & 0xff00);
}

// Votes, matches and the active mask, whole warps and parts of warps.
extern "C" __global__ void votes(const int *x, unsigned *out)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const int v = x[i];
    const unsigned full = 0xffffffffu;
    unsigned *mine = out + i * 8;
    mine[0] = __ballot_sync(full, v > 0);
    mine[1] = __any_sync(full, v == 7) * 2 + __all_sync(full, v > -100);
    mine[2] = __match_any_sync(full, v & 7);
    int agree = 0;
    mine[3] = __match_all_sync(full, (v >> 20) * static_cast<int>(blockIdx.x), &agree);
    mine[3] += agree != 0 ? 5 : 0;
    mine[4] = __match_any_sync(full, static_cast<unsigned long long>(v & 3) << 33);
    // Half of the warp goes another way and votes among itself.
    if (threadIdx.x % 2) {
        mine[5] = __ballot_sync(0xaaaaaaaau, v & 1);
        mine[6] = __activemask();
    } else {
        mine[5] = __popc(__ballot_sync(0x55555555u, v & 2)) + 1000;
        mine[6] = __activemask();
    }
    __syncwarp();
    unsigned lanes;
    asm("mov.u32 %0, %%lanemask_lt;" : "=r"(lanes));
    mine[7] = __popc(mine[0] & lanes);
}

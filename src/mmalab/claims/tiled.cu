// Article A's fast kernel, written again from its description: 128 x 128 of C a block, eight warps
// of 64 x 32, slices of 32 in K, three stages of cp.async, XOR-swizzled tiles read by ldmatrix.
// It is compiled, never run by the package: what its main loop becomes is what the claims count.
// The PTX beside it is nvcc 13.0's, with .version set back to 8.0 for older assemblers:
//     nvcc -ptx -arch=compute_80 -O3 tiled.cu -o tiled.ptx
#include <cstdint>

constexpr int kLines = 128, kSlice = 32, kStages = 3, kTile = kLines * 64;

__device__ __forceinline__ int place(int row, int chunk) {
  return row * 64 + ((chunk ^ ((row >> 1) & 3)) << 4);
}

__device__ __forceinline__ void copy16(uint32_t to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

__device__ __forceinline__ void load4(unsigned (&r)[4], uint32_t from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(from) : "memory");
}

__device__ __forceinline__ void product(float (&c)[4], const unsigned (&a)[4],
                                        const unsigned (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

extern "C" __global__ void __launch_bounds__(256, 2)
tiled(const uint16_t* A, const uint16_t* B, float* C, int n, int k) {
  extern __shared__ __align__(128) unsigned char tiles[];
  const uint32_t base = static_cast<uint32_t>(__cvta_generic_to_shared(tiles));
  const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5, wm = warp >> 2, wn = warp & 3;
  const int row0 = blockIdx.y * kLines, column0 = blockIdx.x * kLines;

  auto copy = [&](int slice, int stage) {
    const uint32_t to = base + stage * 2 * kTile;
    for (int i = 0; i < 2; i++) {
      const int at = tid + i * 256, row = at >> 2, chunk = at & 3;
      copy16(to + place(row, chunk), A + (row0 + row) * k + slice * kSlice + chunk * 8);
      copy16(to + kTile + place(row, chunk), B + (column0 + row) * k + slice * kSlice + chunk * 8);
    }
  };

  float sums[4][4][4] = {};
  const int slices = k / kSlice;
  for (int s = 0; s < kStages - 1; s++) {
    copy(s, s);
    asm volatile("cp.async.commit_group;");
  }
  for (int slice = 0; slice < slices; slice++) {
    asm volatile("cp.async.wait_group %0;" ::"n"(kStages - 2) : "memory");
    __syncthreads();
    if (slice + kStages - 1 < slices) copy(slice + kStages - 1, (slice + kStages - 1) % kStages);
    asm volatile("cp.async.commit_group;");
    const uint32_t a0 = base + slice % kStages * 2 * kTile, b0 = a0 + kTile;
#pragma unroll
    for (int step = 0; step < 2; step++) {
      unsigned a[4][4], b[4][2];
#pragma unroll
      for (int i = 0; i < 4; i++)
        load4(a[i], a0 + place(wm * 64 + i * 16 + (lane & 15), step * 2 + (lane >> 4)));
#pragma unroll
      for (int j = 0; j < 2; j++) {
        unsigned r[4];
        load4(r, b0 + place(wn * 32 + j * 16 + (lane & 7) + ((lane >> 4) << 3),
                            step * 2 + ((lane >> 3) & 1)));
        b[2 * j][0] = r[0];
        b[2 * j][1] = r[1];
        b[2 * j + 1][0] = r[2];
        b[2 * j + 1][1] = r[3];
      }
#pragma unroll
      for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) product(sums[i][j], a[i], b[j]);
    }
  }
  const int g = lane >> 2, t = lane & 3;
#pragma unroll
  for (int i = 0; i < 4; i++)
#pragma unroll
    for (int j = 0; j < 4; j++) {
      float* at = C + (row0 + wm * 64 + i * 16 + g) * n + column0 + wn * 32 + j * 8 + 2 * t;
      at[0] = sums[i][j][0];
      at[1] = sums[i][j][1];
      at[8 * n] = sums[i][j][2];
      at[8 * n + 1] = sums[i][j][3];
    }
}

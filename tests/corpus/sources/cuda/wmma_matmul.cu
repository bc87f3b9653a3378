// One warp per 16x16 tile of D through nvcuda::wmma, every element type that sm_80 has.
// A is M x K row-major, B is K x N row-major (col-major for int8), D is M x N row-major.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

template <typename Layout> constexpr bool is_rows = false;
template <> constexpr bool is_rows<wmma::row_major> = true;

template <typename Element, typename Accumulator, typename Stored, int K_STEP, typename LayoutB>
__device__ void tile_product(const Stored *a, const Stored *b, Accumulator *d, int n, int k)
{
    const int warp = threadIdx.x / 32;
    const int tiles_n = n / 16;
    const int tile = blockIdx.x * (blockDim.x / 32) + warp;
    const int row = tile / tiles_n * 16, column = tile % tiles_n * 16;
    constexpr bool b_rows = is_rows<LayoutB>;

    wmma::fragment<wmma::matrix_a, 16, 16, K_STEP, Element, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, K_STEP, Element, LayoutB> fb;
    wmma::fragment<wmma::accumulator, 16, 16, K_STEP, Accumulator> fd;
    wmma::fill_fragment(fd, Accumulator(0));
    for (int i = 0; i < k; i += K_STEP) {
        wmma::load_matrix_sync(fa, a + row * k + i, k);
        wmma::load_matrix_sync(fb, b_rows ? b + i * n + column : b + column * k + i,
                               b_rows ? n : k);
        if constexpr (K_STEP == 8) {
            for (int j = 0; j < fa.num_elements; j++) fa.x[j] = wmma::__float_to_tf32(fa.x[j]);
            for (int j = 0; j < fb.num_elements; j++) fb.x[j] = wmma::__float_to_tf32(fb.x[j]);
        }
        wmma::mma_sync(fd, fa, fb, fd);
    }
    wmma::store_matrix_sync(d + row * n + column, fd, n, wmma::mem_row_major);
}

extern "C" __global__ void wmma_f16(const half *a, const half *b, float *d, int n, int k)
{
    tile_product<half, float, half, 16, wmma::row_major>(a, b, d, n, k);
}

extern "C" __global__ void wmma_bf16(const __nv_bfloat16 *a, const __nv_bfloat16 *b, float *d,
                                     int n, int k)
{
    tile_product<__nv_bfloat16, float, __nv_bfloat16, 16, wmma::row_major>(a, b, d, n, k);
}

extern "C" __global__ void wmma_tf32(const float *a, const float *b, float *d, int n, int k)
{
    tile_product<wmma::precision::tf32, float, float, 8, wmma::row_major>(a, b, d, n, k);
}

extern "C" __global__ void wmma_s8(const signed char *a, const signed char *b, int *d, int n, int k)
{
    tile_product<signed char, int, signed char, 16, wmma::col_major>(a, b, d, n, k);
}

extern "C" __global__ void wmma_u8(const unsigned char *a, const unsigned char *b, int *d, int n,
                                   int k)
{
    tile_product<unsigned char, int, unsigned char, 16, wmma::col_major>(a, b, d, n, k);
}

// WMMA's doubles and its sub-byte types.
#include <mma.h>

using namespace nvcuda;

// D = A B + C in double precision, 8 x 8 tiles, K steps of 4.
extern "C" __global__ void wmma_f64(const double *a, const double *b, const double *c, double *d,
                                    int n, int k)
{
    const int row = blockIdx.y * 8, column = blockIdx.x * 8;
    wmma::fragment<wmma::matrix_a, 8, 8, 4, double, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 8, 8, 4, double, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 8, 8, 4, double> fd;
    wmma::load_matrix_sync(fd, c + row * n + column, n, wmma::mem_row_major);
    for (int i = 0; i < k; i += 4) {
        wmma::load_matrix_sync(fa, a + row * k + i, k);
        wmma::load_matrix_sync(fb, b + i * n + column, n);
        wmma::mma_sync(fd, fa, fb, fd);
    }
    wmma::store_matrix_sync(d + row * n + column, fd, n, wmma::mem_row_major);
}

// Binary: popcounts of xor and of and, 8 x 8 x 128.
extern "C" __global__ void wmma_b1(const unsigned *a, const unsigned *b, int *different, int *shared)
{
    namespace sub = wmma::experimental;
    wmma::fragment<wmma::matrix_a, 8, 8, 128, sub::precision::b1, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 8, 8, 128, sub::precision::b1, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 8, 8, 128, int> fd, fs;
    wmma::fill_fragment(fd, 0);
    wmma::fill_fragment(fs, 0);
    wmma::load_matrix_sync(fa, a, 128);
    wmma::load_matrix_sync(fb, b, 128);
    wmma::bmma_sync(fd, fa, fb, fd, sub::bmmaBitOpXOR);
    wmma::bmma_sync(fs, fa, fb, fs, sub::bmmaBitOpAND);
    wmma::store_matrix_sync(different, fd, 8, wmma::mem_row_major);
    wmma::store_matrix_sync(shared, fs, 8, wmma::mem_row_major);
}

// Signed 4-bit integers, 8 x 8 x 32.
extern "C" __global__ void wmma_s4(const unsigned *a, const unsigned *b, int *d)
{
    namespace sub = wmma::experimental;
    wmma::fragment<wmma::matrix_a, 8, 8, 32, sub::precision::s4, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 8, 8, 32, sub::precision::s4, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 8, 8, 32, int> fd;
    wmma::fill_fragment(fd, 0);
    wmma::load_matrix_sync(fa, a, 32);
    wmma::load_matrix_sync(fb, b, 32);
    wmma::mma_sync(fd, fa, fb, fd);
    wmma::store_matrix_sync(d, fd, 8, wmma::mem_row_major);
}

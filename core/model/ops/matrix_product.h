#pragma once
// Matrix products on the CPU. Forward products compute each row by itself, so that a token's result
// does not depend on its neighbours; products for gradients take the fastest library.

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "core/model/ops/linear.h"

namespace xrun {

// out = x weight^T + bias, with x [M, K], weight [N, K], bias [N] or undefined and out [M, N] fp32
// on the CPU, all with unit stride in a row. No graph is recorded. A row of out has the same bits
// whatever M, the position of the row and the number of threads are. K = 0 gives the bias.
//
// The kernel is ours (kernels/cpu/row_product.h): the BLAS behind at::mm chooses the order of its
// sums by M, and oneDNN does so too on some processors (Zen 5: below 16 to 65 rows, by shape). On
// one thread of a Zen 5 it takes 0.5 to 0.97 of at::linear's time for 1 to 4 rows and 0.42 to 0.46
// for 256; against oneDNN it takes 0.93 to 1.02 of the time for 256 rows of 576 to 1536 columns.
void multiply_rows_into(const at::Tensor& out, const at::Tensor& x, const at::Tensor& weight,
                        const at::Tensor& bias = {});

// A weight [N, K] in the order in which the kernel reads it, so that products of few rows do not
// transpose it each time.
struct PackedMatrix {
  at::Tensor panels;            // packed_floats(rows, inner) fp32
  int64_t rows = 0, inner = 0;  // N, K

  bool defined() const { return panels.defined(); }
};

int64_t packed_floats(int64_t rows, int64_t inner);

// Packs a weight of any floating type on the CPU.
//   panels  out, packed_floats of its shape, fp32, contiguous
PackedMatrix pack_matrix(const at::Tensor& weight, const at::Tensor& panels);

// The product with a packed weight; its bits are those of the product with the weight itself.
void multiply_rows_into(const at::Tensor& out, const at::Tensor& x, const PackedMatrix& weight,
                        const at::Tensor& bias = {});

// Multiplies operands of one type, without a bias. With kFloat they are upcast and the result is
// rounded once; with kStorage, types other than fp32 go to at::mm.
void multiply_rows_into(const at::Tensor& out, const at::Tensor& x, const at::Tensor& weight,
                        GemmType gemm);

enum class Into { kReplace, kAdd };

// out = a b, or out += a b, with a [M, K], b [K, N] and out [M, N] fp32 on the CPU, out with unit
// stride in a row; transposed views cost nothing. No graph is recorded. The same shapes, strides
// and thread count give the same bits. K = 0 is a zero product.
//
// oneDNN multiplies rather than at::mm's BLAS: at the head's shapes (Zen 4, one thread) it reaches
// 95 to 105 GF/s and the BLAS 75 to 96; at width 64, 76 to 107 and 65 to 75. Without AVX-512
// LibTorch refuses oneDNN, and the BLAS multiplies.
void multiply_into(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b,
                   Into into = Into::kReplace);

// Bounds oneDNN's and LibTorch's caches of compiled kernels, one kernel per shape of a product, to
// 128 shapes each. Call it before the first product; an environment variable that the user has set
// stays. With rows of many lengths every step brings new shapes. With LibTorch's bound of 1,024 the
// process of a 2-layer model grew from 200 MB to 1.2 GB in 400 steps of DPO; with this one it grew
// to 376 MB, in the same time and to the same bits.
void bound_kernel_caches();

// out = a b, for matrices of one type. With kFloat the operands are upcast and the result is
// rounded once.
void product_into(at::Tensor out, const at::Tensor& a, const at::Tensor& b, GemmType gemm);

// Returns an uninitialised fp32 matrix in scratch memory.
at::Tensor scratch_matrix(int64_t rows, int64_t columns);

// Returns the values of a matrix in fp32: the matrix itself, or a copy in scratch memory.
at::Tensor upcast(const at::Tensor& x);

}  // namespace xrun

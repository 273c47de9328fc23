// Our kernel computes forward products from tiles of rows and panels of weights. Products for
// gradients go to oneDNN where LibTorch lets it run, else to the BLAS.

#include "core/model/ops/matrix_product.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdlib>

#include "core/model/ops/op.h"
#include "core/model/ops/scratch.h"

namespace at::native {

// Exported by LibTorch, but the wheel lacks its header; at::mm uses it for bf16 only.
// result = alpha a b + beta result.
void mkldnn_matmul(const at::Tensor& a, const at::Tensor& b, const at::Tensor& result, float beta,
                   float alpha);

}  // namespace at::native

namespace xrun {

namespace {

// An item of work is a block of rows times a block of columns of the result: enough columns for a
// panel of the widest vectors, and enough rows that packing the panel costs about 1 % of the
// products with it. The split does not affect the bits.
constexpr int64_t kItemColumns = 64, kItemRows = 512;
static_assert(kItemColumns % kernels::kPackedColumns == 0);
constexpr int64_t kAloneMultiplies = 1 << 16;  // below, another thread costs more than it saves

// LibTorch requires bf16 instructions for fp32 operands too, and only an attempt detects them.
bool onednn_multiplies() {
  static const bool yes = [] {
    if (!at::globalContext().hasMKLDNN()) return false;
    const at::Tensor one = at::ones({1, 1}), out = at::empty({1, 1});
    try {
      at::native::mkldnn_matmul(one, one, out, 0.0f, 1.0f);
    } catch (const c10::Error&) {
      return false;
    }
    return true;
  }();
  return yes;
}

// The columns of a product, as a matrix or packed: exactly one of `w` and `panels` is set.
struct ProductColumns {
  int64_t count;
  const float* w;
  int64_t w_stride;
  const float* panels;
};

void multiply_columns_into(const at::Tensor& out, const at::Tensor& x,
                           const ProductColumns& columns, const at::Tensor& bias) {
  const int64_t M = x.size(0), K = x.size(1), N = columns.count;
  if (M == 0 || N == 0) return;
  const auto* const rows = x.const_data_ptr<float>();
  const float* const added = bias.defined() ? bias.const_data_ptr<float>() : nullptr;
  auto* const result = out.mutable_data_ptr<float>();
  // x [M, K], weight [N, K], out [M, N]
  const int64_t strips = (N + kItemColumns - 1) / kItemColumns;
  const int64_t blocks = (M + kItemRows - 1) / kItemRows;
  const auto multiply = [&](int64_t begin, int64_t end) {
    while (begin < end) {
      // The items of a thread that share their rows are one call.
      const int64_t block = begin / strips, strip = begin % strips;
      const int64_t count = std::min(end - begin, strips - strip);
      const int64_t j = strip * kItemColumns, stop = std::min((strip + count) * kItemColumns, N);
      // Blocks of nearly equal size, rather than full ones and a small last one.
      const int64_t r = M * block / blocks, n = M * (block + 1) / blocks - r;
      kernels::cpu_kernels().run(kernels::RowProduct{
          rows + r * x.stride(0), x.stride(0), columns.w + j * columns.w_stride, columns.w_stride,
          added == nullptr ? nullptr : added + j, result + r * out.stride(0) + j, out.stride(0), n,
          stop - j, K, columns.panels == nullptr ? nullptr : columns.panels + j * K});
      begin += count;
    }
  };
  // Threads would cost more than the product.
  if (M * N * K < kAloneMultiplies) return multiply(0, strips * blocks);
  at::parallel_for(0, strips * blocks, 1, multiply);
}

}  // namespace

void multiply_rows_into(const at::Tensor& out, const at::Tensor& x, const at::Tensor& weight,
                        const at::Tensor& bias) {
  multiply_columns_into(
      out, x, {weight.size(0), weight.const_data_ptr<float>(), weight.stride(0), nullptr}, bias);
}

void multiply_rows_into(const at::Tensor& out, const at::Tensor& x, const PackedMatrix& weight,
                        const at::Tensor& bias) {
  multiply_columns_into(out, x, {weight.rows, nullptr, 0, weight.panels.const_data_ptr<float>()},
                        bias);
}

int64_t packed_floats(int64_t rows, int64_t inner) {
  constexpr int64_t kColumns = kernels::kPackedColumns;
  return (rows + kColumns - 1) / kColumns * kColumns * inner;
}

PackedMatrix pack_matrix(const at::Tensor& weight, const at::Tensor& panels) {
  const at::Tensor source = upcast(weight.contiguous());
  const int64_t N = source.size(0), K = source.size(1);
  const auto* const from = source.const_data_ptr<float>();
  auto* const to = panels.mutable_data_ptr<float>();
  at::parallel_for(0, (N + kItemColumns - 1) / kItemColumns, 1, [&](int64_t begin, int64_t end) {
    const int64_t first = begin * kItemColumns, last = std::min(end * kItemColumns, N);
    kernels::cpu_kernels().run(
        kernels::PackColumns{from + first * K, K, to + first * K, last - first, K});
  });
  return {panels, N, K};
}

// For experts and adapters, whose weights may have any type.
void multiply_rows_into(const at::Tensor& out, const at::Tensor& x, const at::Tensor& weight,
                        GemmType gemm) {
  if (out.scalar_type() == at::kFloat) return multiply_rows_into(out, x, weight);
  if (gemm == GemmType::kStorage) {
    at::Tensor result = out;
    at::mm_out(result, x, weight.t());
    return;
  }
  const at::Tensor product = scratch_matrix(out.size(0), out.size(1));
  multiply_rows_into(product, upcast(x), upcast(weight));
  out.copy_(product);
}

// For gradients, which need the same bits each time but no fixed order for each row.
void multiply_into(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, Into into) {
  if (out.numel() == 0) return;
  if (a.numel() > 0 && onednn_multiplies()) {
    at::native::mkldnn_matmul(a, b, out, into == Into::kAdd ? 1.0f : 0.0f, 1.0f);
    return;
  }
  at::Tensor result = out;
  // Without oneDNN.
  if (into == Into::kAdd) {
    result.addmm_(a, b);
  } else {
    at::mm_out(result, a, b);
  }
}

void bound_kernel_caches() {
  for (const char* name : {"ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"}) {
    ::setenv(name, "128", /*overwrite=*/0);
  }
}

void product_into(at::Tensor out, const at::Tensor& a, const at::Tensor& b, GemmType gemm) {
  if (gemm == GemmType::kStorage || out.scalar_type() == at::kFloat) {
    at::mm_out(out, a, b);
    return;
  }
  at::Tensor product = scratch_matrix(out.size(0), out.size(1));
  at::mm_out(product, upcast(a), upcast(b));
  out.copy_(product);
}

at::Tensor scratch_matrix(int64_t rows, int64_t columns) {
  return scratch_floats(rows * columns).view({rows, columns});
}

at::Tensor upcast(const at::Tensor& x) {
  if (x.scalar_type() == at::kFloat) return x;
  return scratch_matrix(x.size(0), x.size(1)).copy_(x);
}

}  // namespace xrun

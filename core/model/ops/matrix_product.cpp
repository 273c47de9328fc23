// oneDNN where LibTorch lets it run, else the BLAS.

#include "core/model/ops/matrix_product.h"

#include <ATen/Context.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <c10/util/Exception.h>

#include "core/model/ops/scratch.h"

namespace at::native {

// Exported by LibTorch, but the wheel lacks its header; at::mm uses it for bf16 only.
// result = alpha a b + beta result.
void mkldnn_matmul(const at::Tensor& a, const at::Tensor& b, const at::Tensor& result, float beta,
                   float alpha);

}  // namespace at::native

namespace xrun {

namespace {

// LibTorch requires bf16 instructions for fp32 operands too, and only an attempt tells.
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

}  // namespace

void multiply_into(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, Into into) {
  if (out.numel() == 0) return;
  if (a.numel() > 0 && onednn_multiplies()) {
    at::native::mkldnn_matmul(a, b, out, into == Into::kAdd ? 1.0f : 0.0f, 1.0f);
    return;
  }
  at::Tensor result = out;
  if (into == Into::kAdd) {
    result.addmm_(a, b);
  } else {
    at::mm_out(result, a, b);
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

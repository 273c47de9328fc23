#include "core/model/ops/matrix_product.h"

#include <ATen/Context.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <c10/util/Exception.h>

namespace at::native {

// Exported by LibTorch, whose wheel leaves its header out; at::mm takes this way for bf16 alone.
// result = alpha a b + beta result.
void mkldnn_matmul(const at::Tensor& a, const at::Tensor& b, const at::Tensor& result, float beta,
                   float alpha);

}  // namespace at::native

namespace xrun {

namespace {

// LibTorch asks of fp32 operands, too, that the processor has bf16 instructions: it has to be
// tried.
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

}  // namespace xrun

#include "core/model/matrix_product.h"

#include <ATen/Context.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>

namespace at::native {

// Exported by LibTorch, whose wheel leaves its header out; at::mm takes this way for bf16 alone.
// result = alpha a b + beta result.
void mkldnn_matmul(const at::Tensor& a, const at::Tensor& b, const at::Tensor& result, float beta,
                   float alpha);

}  // namespace at::native

namespace xrun {

void multiply_into(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, Into into) {
  if (out.numel() == 0) return;
  if (at::globalContext().hasMKLDNN() && a.numel() > 0) {
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

// ATen's op saves x, and each row's mean and reciprocal deviation.

#include "core/model/ops/layer_norm.h"

#include <ATen/ops/layer_norm.h>

namespace xrun {

at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      double eps) {
  return at::layer_norm(x, {x.size(-1)}, weight, bias, eps);
}

void layer_norm_saves(SavedTensors& saved, const std::string& x, double width) {
  saved.add(x, width);
  saved.add_bytes(x + ".mean_and_rstd", 8);
}

}  // namespace xrun

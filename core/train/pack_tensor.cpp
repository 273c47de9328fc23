#include "core/train/pack_tensor.h"

#include <ATen/ops/from_blob.h>

namespace xrun {

namespace {

template <typename T>
at::Tensor to_tensor(const std::vector<T>& values, at::ScalarType from, at::ScalarType to) {
  const auto size = static_cast<int64_t>(values.size());
  const at::Tensor view = at::from_blob(const_cast<T*>(values.data()), {size}, from);
  return to == from ? view.clone() : view.to(to);
}

}  // namespace

at::Tensor ids(const std::vector<int64_t>& values) {
  return to_tensor(values, at::kLong, at::kLong);
}

at::Tensor ids(const std::vector<int32_t>& values) {
  return to_tensor(values, at::kInt, at::kLong);
}

at::Tensor floats(const std::vector<float>& values) {
  return to_tensor(values, at::kFloat, at::kFloat);
}

}  // namespace xrun

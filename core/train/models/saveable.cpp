// If a source reads only whole tensors, a range is cut from the whole.

#include "core/train/models/saveable.h"

#include "core/base/error.h"

namespace xrun {

void check_saved_shape(const std::string& name, at::IntArrayRef saved, at::IntArrayRef wanted) {
  if (saved == wanted) return;
  const auto elements = [](at::IntArrayRef shape) {
    int64_t product = 1;
    for (const int64_t size : shape) product *= size;
    return product;
  };
  throw Error(
      fmt::format("the saved tensor {} has {} elements, wanted {}: it belongs to another model",
                  name, elements(saved), elements(wanted)));
}

at::Tensor TensorSource::range(const std::string& name, at::IntArrayRef shape, int64_t begin,
                               int64_t size) const {
  if (range_) return range_(name, shape, begin, size);
  const at::Tensor whole = whole_(name);
  check_saved_shape(name, whole.sizes(), shape);
  return whole.contiguous().view({-1}).narrow(0, begin, size);
}

}  // namespace xrun

// If a source reads only whole tensors, a range is cut from the whole.

#include "core/train/models/saveable.h"

#include <fmt/ranges.h>

#include "core/base/error.h"

namespace xrun {

void check_saved_shape(const std::string& name, at::IntArrayRef saved, at::IntArrayRef wanted) {
  XRUN_CHECK(saved == wanted,
             "the saved tensor {} has shape [{}], wanted [{}]: it belongs to another model", name,
             fmt::join(saved, ", "), fmt::join(wanted, ", "));
}

at::Tensor TensorSource::range(const std::string& name, at::IntArrayRef shape, int64_t begin,
                               int64_t size) const {
  if (range_) return range_(name, shape, begin, size);
  const at::Tensor whole = whole_(name);
  check_saved_shape(name, whole.sizes(), shape);
  return whole.contiguous().view({-1}).narrow(0, begin, size);
}

}  // namespace xrun

#pragma once
// What a run saves by name: tensors and a small JSON state.

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/model/weights/safetensors.h"

namespace xrun {

// Something whose state a checkpoint holds. After restore() from what tensors() and state() gave,
// the object computes the same bits as the one that was saved.
class Saveable {
 public:
  // Returns a saved tensor by the name that tensors() gave it. Throws Error if it is absent.
  using TensorSource = std::function<at::Tensor(const std::string& name)>;

  virtual ~Saveable() = default;

  // The tensors to save, in a fixed order, names unique within this object. They share storage
  // with the object: write them out before the next update.
  virtual std::vector<NamedTensor> tensors() const = 0;

  // Counts and settings, small enough for a manifest.
  virtual Json state() const = 0;

  // Takes over a saved state, copying every tensor. Throws Error that names the tensor or field
  // if one is absent or has another shape; the object may then be half restored: discard it.
  virtual void restore(const TensorSource& tensor, const Json& state) = 0;
};

}  // namespace xrun

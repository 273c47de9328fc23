#pragma once
// The weights in the compute type: the masters, or copies made once per update.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace xrun {

struct Parameter;

// Copies are refreshed when the update count has changed. Not thread-safe.
class ComputeWeights {
 public:
  ComputeWeights(const std::vector<Parameter>& masters, at::ScalarType compute);

  // Returns the weight of the master with this index. If it is a copy and gradients are enabled,
  // its backward passes the gradient to the master, in the master's type.
  at::Tensor get(size_t index, int64_t update_count);

 private:
  struct WeightCopy {
    at::Tensor tensor;
    int64_t update_count = -1;
  };
  const std::vector<Parameter>& masters_;
  at::ScalarType compute_;
  std::vector<WeightCopy> copies_;
};

}  // namespace xrun

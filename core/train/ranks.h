#pragma once
// Sums over data-parallel ranks, as the step needs them.

#include <ATen/core/Tensor.h>

#include <vector>

namespace xrun {

// The processes that share a step. A null pointer stands for a single one.
class Ranks {
 public:
  virtual ~Ranks() = default;
  virtual int64_t rank() const = 0;
  virtual int64_t size() const = 0;
  // Replaces each value by its sum over ranks, the same bits on each of them.
  virtual void sum(std::vector<double>& values) = 0;
  virtual void sum(std::vector<at::Tensor>& tensors) = 0;
};

}  // namespace xrun

#pragma once
// ATen's generators, put back as they were.

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

namespace xrun {

// Restores the generators that at::manual_seed seeds, the CPU's and that of the GPU in use, when
// the scope ends: what is drawn inside leaves no trace outside, so that an evaluation more or less
// changes no other random number.
class RandomScope {
 public:
  RandomScope();
  ~RandomScope();
  RandomScope(const RandomScope&) = delete;
  RandomScope& operator=(const RandomScope&) = delete;

 private:
  std::vector<std::pair<at::Generator, at::Tensor>> states_;
};

}  // namespace xrun

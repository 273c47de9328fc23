#pragma once
// ATen's CPU generator, put back as it was.

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace xrun {

// Restores ATen's CPU generator when the scope ends: what is drawn inside leaves no trace outside,
// so that an evaluation more or less changes no other random number.
class RandomScope {
 public:
  RandomScope();
  ~RandomScope();
  RandomScope(const RandomScope&) = delete;
  RandomScope& operator=(const RandomScope&) = delete;

 private:
  at::Tensor state_;
};

}  // namespace xrun

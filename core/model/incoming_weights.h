#pragma once
// Trained weights whose new values other processes have computed and are still sending.

#include <ATen/core/Tensor.h>

namespace xrun {

// A reader awaits each weight before it uses it, so that a forward overlaps the transfer of the
// weights that it needs later. Not thread-safe.
class IncomingWeights {
 public:
  virtual ~IncomingWeights() = default;

  // Returns when the master has its new values; at once if it is not among the incoming ones.
  // Throws Error if the transfer failed.
  virtual void await(const at::Tensor& master) = 0;
  virtual void await_all() = 0;
};

}  // namespace xrun

#pragma once
// The failure of an objective's gradient, found after the objective has returned.

#include "core/base/error.h"

namespace xrun {

// A loss without a gradient, or an error of autograd in its backward pass. Weights, optimizer state
// and counts are unchanged.
class BackwardError : public Error {
 public:
  using Error::Error;
};

}  // namespace xrun

#pragma once
// The objective seam: unreduced losses by unit, and metrics.

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/train/unit.h"

namespace xrun {

class MicroBatch;

// What an objective returns for one micro-batch.
struct ObjectiveResult {
  // Unreduced losses, each [units of this micro-batch]; the parts add. A unit appears once.
  std::vector<std::pair<Unit, at::Tensor>> losses;
  // Each a scalar, one value a unit of the first loss, or one a pair, sequence or token. Order is
  // kept; gradients are ignored.
  std::vector<std::pair<std::string, at::Tensor>> metrics;
};

// Called once a micro-batch, with gradients in a step and without in an evaluation. What it throws
// passes through unchanged, after the step has put everything back.
using Objective = std::function<ObjectiveResult(MicroBatch& micro)>;

// A loss or a gradient that is not finite. The step has changed nothing: weights, optimizer state
// and counts are those before it.
class NonFiniteLoss : public Error {
 public:
  NonFiniteLoss(const std::string& message, int64_t part, int64_t micro, std::vector<int64_t> rows)
      : Error(message), part_(part), micro_(micro), rows_(std::move(rows)) {}
  int64_t part() const { return part_; }    // which batch of the step, 0 if it had one
  int64_t micro() const { return micro_; }  // which micro-batch; -1 if only the gradient is bad
  const std::vector<int64_t>& rows() const { return rows_; }  // row ids of the bad units

 private:
  int64_t part_, micro_;
  std::vector<int64_t> rows_;
};

// Throws Error unless the losses have the micro-batch's unit counts ("the loss has 12 elements,
// wanted 8 (one per pair of this micro-batch)") and no metric has a name that the step gives
// itself.
void check_result(const ObjectiveResult& result, const MicroBatch& micro);

}  // namespace xrun

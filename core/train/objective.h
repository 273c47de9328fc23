#pragma once
// The interface of objectives: unreduced losses by unit, and metrics.

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/train/batches/unit.h"

namespace xrun {

class MicroBatch;

// The return value of an objective for one micro-batch.
struct ObjectiveResult {
  // Unreduced losses, each [units of this micro-batch]; their means add up. A unit appears
  // once.
  std::vector<std::pair<Unit, at::Tensor>> losses;
  // Each is a scalar or has one value per unit, of any unit of the micro-batch (metric_unit.h). The
  // order is kept; gradients are ignored.
  std::vector<std::pair<std::string, at::Tensor>> metrics;
  // Weights of a metric's values, >= 0 and of its shape, for a mean over some rows only (the good
  // answers, say). They multiply the weights of the unit. A metric that is not here has weight 1.
  std::map<std::string, at::Tensor> metric_weights = {};
};

// Called once per micro-batch, with gradients in a step and without in an evaluation. Exceptions
// pass through unchanged after the step has restored everything.
using Objective = std::function<ObjectiveResult(MicroBatch& micro)>;

// A loss or a gradient is not finite. Weights, optimizer state and counts are unchanged.
class NonFiniteLoss : public Error {
 public:
  NonFiniteLoss(const std::string& message, int64_t term, int64_t micro, std::vector<int64_t> rows)
      : Error(message), term_(term), micro_(micro), rows_(std::move(rows)) {}
  int64_t term() const { return term_; }    // index of the step's term
  int64_t micro() const { return micro_; }  // in its batch; -1: only the norm is bad
  const std::vector<int64_t>& rows() const { return rows_; }  // row ids of the bad units

 private:
  int64_t term_, micro_;
  std::vector<int64_t> rows_;
};

// Throws Error unless the losses have the micro-batch's unit counts ("the loss has 12 elements,
// wanted 8 (one per pair of this micro-batch)") and no metric has a name that the step itself
// writes.
void check_result(const ObjectiveResult& result, MicroBatch& micro);

// Returns the fix for two tensors of a micro-batch whose sizes differ because one has a value per
// token and the other does not: "21 is one per pair, 2,543 one per trained token of the chosen
// side; view:sum(x) ...". "" for other sizes.
std::string unit_mismatch_hint(int64_t a, int64_t b, MicroBatch& micro);

}  // namespace xrun

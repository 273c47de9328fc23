#pragma once
// The loss of a step: unreduced losses times their weights, divided by one global weight per unit.

#include <ATen/core/Tensor.h>

#include <map>
#include <vector>

#include "core/train/objective.h"

namespace xrun {

class MicroBatch;

// Total weight of each unit over a batch (or a data set), known before the first forward.
using UnitTotals = std::map<Unit, double>;

// Returns the units that a micro-batch has, in the order of kUnits.
std::vector<Unit> units_of(const MicroBatch& micro);
// Returns the sum of weights, float32 on the CPU, in double and in index order.
double total_weight(const at::Tensor& weight);

// Adds the total weight of each unit that a micro-batch has.
void add_unit_weights(UnitTotals& totals, const MicroBatch& micro);

// The weighted loss of one term, 0-dim.
struct WeightedLoss {
  at::Tensor graph;  // in the type of the losses, with their graph
  at::Tensor value;  // float64, without a graph
};
// Returns term_weight times the sum over units of loss x weight / total. A total of 0 gives 0.
WeightedLoss weighted_loss(const ObjectiveResult& result, const MicroBatch& micro,
                           const UnitTotals& totals, double term_weight);

// Throws NonFiniteLoss that names the row of the first bad unit of `result`, if there is one.
void check_finite(const ObjectiveResult& result, const MicroBatch& micro, int64_t term,
                  size_t micro_count);
// Checks the gradients of log-probs, each [R], in the same way.
void check_finite(const std::vector<at::Tensor>& logprob_gradients, const MicroBatch& micro,
                  int64_t term, size_t micro_count);

}  // namespace xrun

#pragma once
// Weighted sums of losses and metrics over micro-batches, read from the device once.

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "core/train/objective.h"
#include "core/train/step.h"

namespace xrun {

class LogprobSource;
class MicroBatch;
class Ranks;

// Total weight of each unit over a batch (or a data set), known before the first forward.
using UnitTotals = std::map<Unit, double>;

// Returns the unit by which a metric of this length is weighted; the loss's own unit, `first`, goes
// first. Throws Error that names the metric if its length fits none.
Unit unit_of_metric(const std::string& name, const at::Tensor& value, Unit first,
                    const MicroBatch& micro);

// Adds one micro-batch's weights of the units that it has.
void add_unit_weights(UnitTotals& totals, const MicroBatch& micro);

// Sums of one step or evaluation. Not thread-safe.
class MetricSums {
 public:
  // Takes in what an objective returned: each metric as (sum of value x weight, sum of weight), in
  // double. Throws Error that names a metric whose length fits no unit.
  void add_metrics(const ObjectiveResult& result, const MicroBatch& micro);

  // Takes in logprob_<view> and length_<view> of the views that one of `sources` scored; null
  // stands for the first source that was asked. Weighted by the segments' loss weights.
  void add_scored(const MicroBatch& micro, const std::vector<const LogprobSource*>& sources);

  // Takes in the weighted loss of a micro-batch, already divided: a 0-dim float64 tensor.
  void add_loss(const at::Tensor& loss);

  // Reads everything once. `loss` comes first, then metrics in the order first seen; an entry whose
  // weights sum to 0 is left out.  extra is one more 0-dim tensor to read along (may be undefined).
  struct Read {
    Metrics metrics;
    std::vector<double> losses;  // one an add_loss
    double extra = 0;
  };
  Read read(Ranks* ranks, const at::Tensor& extra = {}) const;

 private:
  struct Entry {
    std::string name;
    std::vector<at::Tensor> sums;  // 0-dim float64
    double weight = 0;
  };
  void add(const std::string& name, const at::Tensor& value, const at::Tensor& weight);
  Entry& entry(const std::string& name);

  std::vector<at::Tensor> losses_;
  std::vector<Entry> entries_;
};

// Returns the weighted loss of one part of an objective: sum of loss x weight / total as a 0-dim
// tensor of the loss's type with its graph, and the same in float64 without. A total of 0 gives 0.
struct WeightedLoss {
  at::Tensor graph;
  at::Tensor value;
};
WeightedLoss weighted_loss(const ObjectiveResult& result, const MicroBatch& micro,
                           const UnitTotals& totals, double part_weight);

// Throws NonFiniteLoss that names the first bad unit's row of `result`; returns if there is none.
void check_finite(const ObjectiveResult& result, const MicroBatch& micro, int64_t part,
                  size_t micro_count);

}  // namespace xrun

#pragma once
// Weighted sums of losses and metrics over micro-batches, in total and by source of a mixture. They
// are read from the device once.

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/train/metric_means.h"
#include "core/train/metric_unit.h"
#include "core/train/objective.h"

namespace xrun {

class LogprobSource;
class MicroBatch;
class Ranks;

// Sums of one step or evaluation. Every micro-batch is added by one rank; read() adds those of all
// ranks in the order of their numbers. Not thread-safe.
class MetricSums {
 public:
  // Starts a micro-batch: later calls add to it. Its number counts over the step or evaluation.
  void begin(int64_t micro) { micro_ = micro; }

  // Adds what an objective returned: each metric as (sum of value x weight, sum of weight), in
  // double. Two terms of a step may use one name in different units. Throws Error as
  // MetricUnit::narrow does.
  void add_metrics(const ObjectiveResult& result, const MicroBatch& micro, int64_t term = 0);

  // Adds logprob_<view> and length_<view> of the views that one of `sources` scored; null means
  // the first source that was read. Weighted by the segments' loss weights.
  void add_scored(const MicroBatch& micro, const std::vector<const LogprobSource*>& sources);

  // Adds the losses of a mixture's sources: loss/<source> is the loss of only the source's units,
  // each kind of unit divided by its weight in the source. Without a mixture nothing is added.
  void add_source_losses(const ObjectiveResult& result, const MicroBatch& micro, int64_t term = 0,
                         double term_weight = 1);

  // Adds the weighted loss of a micro-batch, already divided: a 0-dim float64 tensor.
  void add_loss(const at::Tensor& loss);
  // Adds the losses of a micro-batch when the total weight of each unit is not known yet. The loss
  // is then the sum of the units' weighted means.
  void add_unit_losses(const ObjectiveResult& result, const MicroBatch& micro);

  struct MicroLoss {
    double value;
    int64_t micro, rank;
  };
  struct ReadSums {
    Metrics metrics;
    std::vector<MicroLoss> losses;   // one per add_loss of any rank, by micro-batch
    double extra = 0;                // of this rank
    std::vector<std::string> notes;  // the `note` of every rank
  };
  // Reads everything from the device once. `loss` comes first, then metrics in the order first
  // seen, each followed by <name>/<source> for the sources of a mixture if it has one value per
  // unit and came without weights. A metric whose weights sum to 0 is left out. `extra` is a 0-dim
  // tensor that is read along; it may be undefined. `note` goes to every rank beside the sums. With
  // ranks every rank makes the call, even without a micro-batch.
  ReadSums read(const at::Tensor& extra = {}, Ranks* ranks = nullptr,
                const std::string& note = {}) const;

 private:
  // An addition whose values are still on the device.
  struct PendingAddition {
    MetricAddition host;
    at::Tensor sum;               // 0-dim float64
    at::Tensor own_weight = {};   // 0-dim float64, or undefined
    at::Tensor source_sums = {};  // [sources] float64, or undefined
  };

  PendingAddition& add(MetricKind kind, int64_t term, const at::Tensor& value,
                       const at::Tensor& unit_weights, const at::Tensor& own = {});
  void add_sources(PendingAddition& to, const at::Tensor& value, Unit unit,
                   const MicroBatch& micro);
  std::vector<MetricAddition> on_host(const at::Tensor& extra, double& extra_value) const;

  int64_t micro_ = 0;
  std::vector<PendingAddition> additions_;
  MetricSources sources_;
  std::map<std::pair<std::string, int64_t>, MetricUnit> units_;  // of a metric in a term
};

}  // namespace xrun

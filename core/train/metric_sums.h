#pragma once
// Weighted sums of losses and metrics over micro-batches, of all data and of each source of a
// mixture, read from the device once.

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/train/objective.h"
#include "core/train/step.h"

namespace xrun {

class LogprobSource;
class MicroBatch;

// The unit of a metric, decided over all its micro-batches: in one of them, two units may have
// equally many members.
class MetricUnit {
 public:
  // Narrows the units down to those whose count is the length of `value` in this micro-batch too.
  // `first`, the unit of the first loss, is preferred among several. Throws Error that names the
  // metric and the lengths it could have if none fits, or if none fits every micro-batch so far.
  void narrow(const std::string& name, const at::Tensor& value, Unit first,
              const MicroBatch& micro);
  const std::vector<Unit>& candidates() const { return candidates_; }  // the preferred one first

 private:
  std::vector<Unit> candidates_;  // empty before the first micro-batch
};

// Sums of one step or evaluation. Not thread-safe.
class MetricSums {
 public:
  // Adds what an objective returned: each metric as (sum of value x weight, sum of weight), in
  // double. Two terms of a step may use one name in different units. Throws Error as
  // MetricUnit::narrow does.
  void add_metrics(const ObjectiveResult& result, const MicroBatch& micro, int64_t term = 0);

  // Adds logprob_<view> and length_<view> of the views that one of `sources` scored; null means
  // the first source that was read. Weighted by the segments' loss weights.
  void add_scored(const MicroBatch& micro, const std::vector<const LogprobSource*>& sources);

  // Adds the losses of a mixture's sources: loss/<source> is the loss of only the source's units,
  // each unit's sum divided by its weight in the source. Without a mixture nothing is added.
  void add_source_losses(const ObjectiveResult& result, const MicroBatch& micro, int64_t term = 0,
                         double term_weight = 1);

  // Adds the weighted loss of a micro-batch, already divided: a 0-dim float64 tensor.
  void add_loss(const at::Tensor& loss);

  // Reads everything once. `loss` comes first, then metrics in the order first seen, each followed
  // by <name>/<source> for the sources of a mixture that have a value for each unit; a metric whose
  // weights sum to 0 is left out. `extra` is one more 0-dim tensor to read along (may be
  // undefined).
  struct Read {
    Metrics metrics;
    std::vector<double> losses;  // one per add_loss
    double extra = 0;
  };
  Read read(const at::Tensor& extra = {}) const;

 private:
  struct WeightedSum {
    std::vector<at::Tensor> sums;  // 0-dim float64
    double weight = 0;
    std::vector<at::Tensor> weights;  // 0-dim float64, beside `weight`: of metrics with own weights
    std::vector<at::Tensor> source_sums;  // [sources] float64; empty: not summed by source
    std::vector<double> source_weights;   // [sources]
    void add(const at::Tensor& value, const at::Tensor& unit_weights, const at::Tensor& own = {});
    // Adds the values of units by the source of each, out of `sources`.
    void add_by_source(const at::Tensor& value, const at::Tensor& weights,
                       const std::vector<int64_t>& source, size_t sources);
  };
  struct Metric {
    std::string name;
    WeightedSum plain = {};  // of numbers, and of values whose weights are known
    struct OfTerm {
      MetricUnit unit = {};
      std::map<Unit, WeightedSum> by_unit = {};  // as if the unit were this one
    };
    std::map<int64_t, OfTerm> by_term = {};
    // The sums of the units that the values turned out to have, with their terms.
    std::vector<std::pair<int64_t, const WeightedSum*>> chosen() const;
  };
  struct SourceLoss {
    int64_t term;
    Unit unit;
    double term_weight;
    WeightedSum sum = {};
  };
  Metric& metric(const std::string& name);
  void read_means(const std::vector<double>& sums, Metrics& metrics) const;
  SourceLoss& source_loss(int64_t term, Unit unit, double term_weight);
  void add_by_source(WeightedSum& sum, const at::Tensor& value, Unit unit, const MicroBatch& micro,
                     int64_t term);

  std::vector<at::Tensor> losses_;
  std::vector<SourceLoss> source_losses_;
  std::map<int64_t, std::vector<std::string>> sources_;  // names, by term
  std::vector<Metric> metrics_;
};

}  // namespace xrun

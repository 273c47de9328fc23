#pragma once
// The weighted means of a step or evaluation, from the sums of its micro-batches on any rank.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/train/batches/unit.h"
#include "core/train/step.h"

namespace xrun {

enum class MetricKind : int64_t {
  kLoss,        // a loss that the global weight has divided already
  kUnitLoss,    // a loss in one unit, to be divided by the weight of all its units
  kSourceLoss,  // a loss in one unit by source of a mixture, to be divided likewise
  kPlain,       // a metric whose weights are known
  kByUnit,      // a metric whose unit is not decided yet, weighted as if it had this unit
};

// The contribution of one micro-batch to one sum.
struct MetricAddition {
  MetricKind kind = MetricKind::kPlain;
  int64_t micro = 0, rank = 0;
  int64_t term = 0;       // of the step's loss
  std::string name = {};  // of a metric
  Unit unit = Unit::kPair;
  bool preferred = false;  // the first of the units that its value may have
  double term_weight = 1;  // of a source loss
  double sum = 0;          // sum_i w_i x_i
  double weight = 0;       // sum_i w_i, the weights of the units
  double own_weight = 0;   // the same for a metric that came with weights; `weight` is then 0
  std::vector<double> source_sums = {};     // [sources of a mixture]; empty: not by source
  std::vector<double> source_weights = {};  // [sources]
};

using MetricSources = std::map<int64_t, std::vector<std::string>>;  // names of sources, by term

// Returns `loss` first, then metrics in the order first seen, each followed by its means by source.
// A metric whose weights sum to 0 is left out. Requires additions in the order of the
// micro-batches. Throws Error for a metric that no unit fits in every micro-batch.
Metrics metric_means(const std::vector<MetricAddition>& additions, const MetricSources& sources);

// Returns the additions, sources and note of one rank as bytes for the others.
std::string metrics_message(const std::vector<MetricAddition>& additions,
                            const MetricSources& sources, const std::string& note);
// Appends the additions of a rank's message to `additions`, adds its sources and returns its note.
std::string read_metrics_message(const std::string& message, int64_t rank,
                                 std::vector<MetricAddition>& additions, MetricSources& sources);

}  // namespace xrun

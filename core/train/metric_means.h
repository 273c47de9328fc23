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
  kLoss,        // weighted and divided already
  kUnitLoss,    // in one unit, whose whole weight is not known yet
  kSourceLoss,  // the same by source of a mixture
  kPlain,       // a metric whose weights are known
  kByUnit,      // a metric, as if it had this unit
};

// The contribution of one micro-batch to one sum.
struct MetricAddition {
  MetricKind kind = MetricKind::kPlain;
  int64_t micro = 0, rank = 0, term = 0;
  std::string name = {};  // of a metric
  Unit unit = Unit::kPair;
  bool preferred = false;  // the first of the units that its value may have
  double term_weight = 1;  // of a source loss
  double sum = 0, weight = 0;
  double own_weight = 0;                 // of a metric with own weights, in place of `weight`
  std::vector<double> source_sums = {};  // by source of a mixture; empty: not by source
  std::vector<double> source_weights = {};
};

using MetricSources = std::map<int64_t, std::vector<std::string>>;  // names of sources, by term

// Returns `loss` first, then metrics in the order first seen, each followed by its means by source;
// a metric whose weights sum to 0 is left out. The additions are in the order of the micro-batches.
// Throws Error for a metric that no unit fits in every micro-batch.
Metrics metric_means(const std::vector<MetricAddition>& additions, const MetricSources& sources);

// Returns additions, sources and a note of one rank as bytes for the others.
std::string metrics_message(const std::vector<MetricAddition>& additions,
                            const MetricSources& sources, const std::string& note);
// Appends the additions of another rank's message and sets its sources. Returns the note.
std::string read_metrics_message(const std::string& message, int64_t rank,
                                 std::vector<MetricAddition>& additions, MetricSources& sources);

}  // namespace xrun

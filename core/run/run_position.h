#pragma once
// The position of a run in its loops, as a checkpoint's run.json holds it.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/base/json.h"
#include "core/run/metrics_log.h"

namespace xrun {

// One loop.
struct RunPhase {
  int64_t done = 0;   // bodies
  int64_t total = 0;  // of the whole loop
  bool left = false;  // by `break`
  Json data;          // PhasePlan::data
  Json sources = {};  // Run::set_sources; null: a step's data follow from its number
};

// The values of one evaluation between loops, for a recipe that decides by them.
struct OutsideEvaluation {
  int64_t step = 0;
  std::string what;
  MetricList metrics;
};

struct RunPosition {
  std::vector<RunPhase> phases;
  std::string stopped;  // the reason given to stop(), "" if none
  std::vector<OutsideEvaluation> outside;

  // `state` is run.state.
  Json to_json(int64_t step, const Json& state) const;
  // Leaves "state" to the caller (decode_state). Throws Error that names a missing key or a wrong
  // type.
  static RunPosition from_json(const Json& json);
};

}  // namespace xrun

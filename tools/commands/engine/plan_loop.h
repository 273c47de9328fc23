#pragma once
// Reads the work of a paused recipe's loop: its models and the FLOPs of some of its steps.

#include <optional>
#include <vector>

#include "core/data/packs/packed_batch.h"
#include "core/model/cost/memory_plan.h"
#include "core/model/cost/step_forecast.h"
#include "core/prefix/fold_settings.h"

namespace xrun {

struct LoopPause;

// The models, and the work of steps spread over the loop.
struct PlannedLoop {
  std::vector<PlannedModel> models;
  PlannedModel policy;
  std::vector<StepWork> steps;
  double tokens = 0;  // per step on average, before folding
  FoldSettings fold;
  PackedBatch pack;  // the largest of those steps
};

// Returns the loop's work on devices of a type. The compute types are those of the recipe here.
// Throws Error for a loop without an optimizer and for one that samples answers.
PlannedLoop planned_loop(const LoopPause& pause, c10::DeviceType device);

}  // namespace xrun

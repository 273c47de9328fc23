#pragma once
// One loop of a recipe over its sets: the plan of its steps, and the packs and batches of each.

#include <c10/core/Device.h>

#include <cstdint>
#include <lua.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/data/packs/packed_batch.h"
#include "core/run/run.h"
#include "core/train/batches/batch.h"
#include "lua/bind/data/data_handle.h"
#include "lua/bind/rollout/rollout_source.h"

namespace xrun {

class Ranks;

// One set that a loop draws from: the plan of its steps, and its batch in the recipe's hands.
struct StepSource {
  std::shared_ptr<DataHandle> data;
  StepPlan plan;
  std::shared_ptr<Batch> batch = nullptr;
  // For xrun.rollouts, whose batches are sampled: the source and the groups that wait; else null.
  std::shared_ptr<RolloutSource> rollouts = nullptr;
  std::shared_ptr<GroupQueue> queue = nullptr;
  std::optional<PlannedAnswers> answers = {};  // to its prompts, as planned; nothing: not known

  double epochs(int64_t steps) const;  // passes over the set in that many steps
  // Returns the fix for a step that repeats a row: "lower the batch to at most 3: --set
  // batch.pairs=3". Names batch.schedule if a size in it is too large.
  std::string lower_batch_text(int64_t steps) const;
  // Returns a warning if all answers of the set have one label, so that good and bad ones look
  // alike; else "".
  std::string one_label_text() const;
  // Returns a warning that KTO's baseline stays 0 if no step has a second labelled answer; else "".
  std::string lone_answer_text(int64_t steps) const;
};

// Returns the changes within that many steps: "16 from step 100 on, 32 from step 300 on".
std::string changes_text(const StepPlan& plan, int64_t steps);
// Returns "8 pairs", with changes "8 pairs, 16 from step 100 on"; without a unit "8".
std::string size_text(const StepPlan& plan, int64_t steps, const char* unit = "");

// One `run:steps` loop over one or more sets. The first set determines the number of steps; the
// others repeat.
struct StepLoop {
  std::vector<StepSource> sources;
  Ranks* ranks = nullptr;  // that share its batches; null: this process alone
  int64_t steps = 0;
  int64_t max_tokens = 0;
  FoldSettings fold = {};
  int64_t phase = 0;
  int64_t first_step = 0;  // bodies of the run before this loop
  int64_t batch_step = 0;  // of the current batch, counted in this loop
  bool begun = false;
  bool ended = false;                     // early: its remaining bodies do not run
  lua_State* thread = nullptr;            // in which its `for` runs
  int64_t fold_check = 0;                 // batch.fold_check
  bool checks_folding = false;            // set as the loop begins, but not in a preview
  mutable bool rollouts_checked = false;  // check_update_folding has seen its first update
  mutable int64_t fold_checked = 0;       // the latest step compared under fold_check

  double epochs() const { return sources.front().epochs(steps); }
  // Returns the plan that a resume compares: the steps, and for each set its fingerprint and how
  // the loop draws from it.
  PhasePlan phase_plan() const;
  // Returns the packs of a source that step `step` of the run would train: a pure function of the
  // plan. Loads no weights. Throws Error for a step that the loop does not have, and for a pair or
  // sequence longer than max_tokens.
  std::vector<PackedBatch> packs(int64_t step, size_t source = 0) const;
  // Returns the BatchInfo of the step's batch.
  BatchInfo batch_info(int64_t step, c10::Device device, const StepSource& source) const;
  // Returns the batch of the step's body; for rollouts, its prompts if no group is left out.
  std::shared_ptr<Batch> make_batch(int64_t step, c10::Device device, size_t source = 0) const;
};

}  // namespace xrun

// What the loops of a run are planned to hold in memory and held: its record has the fullest one.

#include <algorithm>
#include <exception>

#include "core/run/machine.h"
#include "core/train/adamw.h"
#include "lua/bind/run_loop.h"

namespace xrun {

namespace {

// A checkpoint holds what is trained and the moments of it. When one is written those that are kept
// are still there.
int64_t checkpoint_bytes(const RunModels& models) {
  int64_t bytes = 0;
  for (const auto& policy : models.policies) {
    for (const Parameter& one : policy->parameters()) {
      bytes += static_cast<int64_t>(one.master.nbytes());
    }
  }
  for (const auto& adamw : models.optimizers) {
    for (const auto& trainable : adamw->trainables()) {
      for (const Parameter& one : trainable->parameters()) {
        bytes += 2 * static_cast<int64_t>(one.master.nbytes());
      }
    }
  }
  return bytes;
}

int64_t checkpoints_at_once(int64_t steps, int64_t every, int64_t keep) {
  const int64_t saves = every > 0 ? steps / every + 1 : 1;
  return std::clamp<int64_t>(saves, 1, keep + 1);
}

}  // namespace

// A resumed run has its kept checkpoints already, so that one more must fit. One that is looked at
// keeps nothing.
void RunLoop::check_disk(const StepLoop& loop) const {
  if (session_.scratch != nullptr) return;
  if (optimizers.empty() || loop.steps <= run_->resume_step() - run_->step()) return;
  const RunSettings& settings = run_->settings();
  const int64_t steps =
      settings.steps_limit < 0 ? loop.steps : std::min(loop.steps, settings.steps_limit);
  const int64_t count =
      run_->resumed() ? 1 : checkpoints_at_once(steps, settings.save_every, settings.save_keep);
  check_disk_space(run_->dir().path(), count * checkpoint_bytes({policies_, optimizers}));
}

// A loop that a resume skips whole takes nothing.
void RunLoop::plan_memory(const StepLoop& loop) {
  measure_memory();
  memory_.reset();
  load_weights();
  if (optimizers.empty() || loop.steps <= run_->resume_step() - run_->step()) return;
  memory_ = plan_of(loop);
  run_->dir().record().set("memory", (fullest_ ? *fullest_ : *memory_).to_json());
  run_->dir().write_record();
}

MemoryReport RunLoop::plan_of(const StepLoop& loop) const {
  return MemoryReport::plan({policies_, optimizers, session_.references}, loop);
}

// xrun.run has loaded them, but of a recipe that is looked at; a dry run needs none.
void RunLoop::load_weights() {
  const bool loaded = std::all_of(policies_.begin(), policies_.end(),
                                  [](const auto& policy) { return policy->loaded(); });
  if (loaded || session_.stand_in != nullptr) return;
  if (!optimizers.empty()) check_before_load({policies_, optimizers});
  for (const auto& policy : policies_) policy->model();
}

void RunLoop::measure_memory() {
  if (!memory_) return;
  memory_->measure();
  if (!fullest_ || memory_->measured() >= fullest_->measured()) fullest_ = memory_;
  run_->dir().record().set("memory", fullest_->to_json());
}

void RunLoop::keep_memory_after_error() noexcept {
  if (!memory_ && !fullest_) return;
  try {
    measure_memory();
    run_->dir().write_record();
  } catch (const std::exception&) {
    // The figures are lost, as the error that ended the run is said already.
  }
}

}  // namespace xrun

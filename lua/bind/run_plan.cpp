// Before a loop trains: the plan that a resume compares, its memory and its disk.

#include <algorithm>
#include <exception>

#include "core/run/machine.h"
#include "core/train/adamw.h"
#include "core/train/policy.h"
#include "lua/bind/run_loop.h"

namespace xrun {

namespace {

// A resume compares the set and the way in which a loop draws from it.
Json identity_of(const StepSource& source) {
  const DataSet& set = source.data->set;
  const StepPlan& plan = source.plan;
  return Json(Json::Object{{"fingerprint", set.fingerprint()},
                           {"units", set.size()},
                           {"unit", set.unit_name()},
                           {"units_a_step", plan.units},
                           {"window", set.window_length()},
                           {"seed", static_cast<int64_t>(plan.seed)},
                           {"order", static_cast<int64_t>(plan.order.kind)},
                           {"block", plan.order.block},
                           {"window_blocks", plan.order.window}});
}

}  // namespace

PhasePlan phase_plan_of(const StepLoop& loop) {
  PhasePlan plan;
  plan.steps = loop.steps;
  plan.data = identity_of(loop.sources.front());
  for (size_t i = 1; i < loop.sources.size(); ++i) {
    plan.data.set(fmt::format("set {}", i + 1), identity_of(loop.sources[i]));
  }
  return plan;
}

namespace {

// A checkpoint holds the trained weights and their two moments, in fp32.
int64_t checkpoint_bytes(const RunModels& models) {
  int64_t bytes = 0;
  for (const auto& policy : models.policies) {
    for (const Parameter& parameter : policy->parameters()) {
      bytes += static_cast<int64_t>(parameter.master.nbytes());
    }
  }
  for (const auto& adamw : models.optimizers) {
    for (const auto& trainable : adamw->trainables()) {
      for (const Parameter& parameter : trainable->parameters()) {
        bytes += 2 * static_cast<int64_t>(parameter.master.nbytes());
      }
    }
  }
  return bytes;
}

int64_t export_bytes(const RunModels& models) {
  int64_t bytes = 0;
  for (const auto& policy : models.policies) bytes += policy->export_bytes();
  return bytes;
}

}  // namespace

// One checkpoint must fit, or nothing would be saved. Without room for all that may be written, the
// user is warned while nothing is lost yet. A resumed run has its checkpoints already. A preview
// writes none.
void RunLoop::check_disk(const StepLoop& loop) {
  if (session_.previews()) return;
  if (optimizers.empty() || loop.steps <= run_->resume_step() - run_->step()) return;
  const RunSettings& settings = run_->settings();
  const int64_t steps =
      settings.steps_limit < 0 ? loop.steps : std::min(loop.steps, settings.steps_limit);
  int64_t count = settings.save_every > 0 ? steps / settings.save_every + 1 : 1;
  if (settings.save_minutes > 0) count = steps;
  count = run_->resumed() ? 1 : std::clamp<int64_t>(count, 1, settings.save_keep + 1);
  const RunModels models{policies_, optimizers};
  session_.notices.add(check_disk_space(run_->dir().path(),
                                        {checkpoint_bytes(models), count, export_bytes(models)}));
}

// A loop that a resume skips entirely needs no memory.
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
  return MemoryReport::plan({policies_, optimizers, session_.models.references()}, loop);
}

// In a preview xrun.run has not loaded them.
void RunLoop::load_weights() {
  if (std::none_of(policies_.begin(), policies_.end(),
                   [](const auto& policy) { return policy->needs_weights(); })) {
    return;
  }
  if (!optimizers.empty()) check_before_load({policies_, optimizers});
  for (const auto& policy : policies_) policy->model();
}

void RunLoop::measure_memory() {
  if (!memory_) return;
  memory_->measure();
  if (!fullest_ || memory_->measured() >= fullest_->measured()) fullest_ = memory_;
  run_->dir().record().set("memory", fullest_->to_json());
}

void RunLoop::record_memory_after_error() noexcept {
  if (!memory_ && !fullest_) return;
  try {
    measure_memory();
    run_->dir().write_record();
  } catch (const std::exception&) {
    // The figures are lost; the error that ended the run is reported already.
  }
}

}  // namespace xrun

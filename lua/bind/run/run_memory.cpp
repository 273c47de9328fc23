// In run.json: {"memory": {"planned", "measured"}} of the fullest loop (memory_report.h).

#include "lua/bind/run/run_memory.h"

#include <exception>

#include "core/rollout/rollout_log.h"
#include "core/run/record/run_summary.h"
#include "core/run/run.h"
#include "core/train/adamw.h"
#include "core/train/models/policy.h"
#include "lua/bind/run/step_loop.h"

namespace xrun {

void RunMemory::plan(const RunModels& models, const StepLoop& loop) {
  latest_ = MemoryReport::plan(models, loop);
  // Before the loop has run nothing is measured, so an earlier loop's figures stay.
  run_.dir().record().set("memory", (fullest_ ? *fullest_ : *latest_).to_json());
  run_.dir().write_record();
}

void RunMemory::measure() {
  if (!latest_) return;
  latest_->measure();
  if (!fullest_ || latest_->measured() >= fullest_->measured()) fullest_ = latest_;
  run_.dir().record().set("memory", fullest_->to_json());
}

void RunMemory::end_loop() {
  measure();
  latest_.reset();
}

void RunMemory::record_after_error() noexcept {
  if (!latest_ && !fullest_) return;
  try {
    measure();
    run_.dir().write_record();
  } catch (const std::exception&) {
    // The figures are lost; the error that ended the run is reported already.
  }
}

void RunMemory::add_to(RunSummary& summary) const {
  if (!fullest_) return;
  summary.planned_bytes = total_bytes(fullest_->planned());
  summary.tensor_bytes = fullest_->measured();
  summary.tensors_on_host = fullest_->device().is_cpu();
}

DiskNeeds disk_needs(const RunModels& models, const StepLoop& loop, int64_t steps) {
  DiskNeeds needs;
  // A checkpoint holds the trained weights, their two moments and their averages, in fp32.
  for (const auto& policy : models.policies) {
    needs.exported += policy->export_bytes();
    for (const Parameter& parameter : policy->parameters()) {
      needs.checkpoint += static_cast<int64_t>(parameter.master.nbytes());
    }
  }
  for (const auto& adamw : models.optimizers) {
    for (const auto& trainable : adamw->trainables()) {
      for (const Parameter& parameter : trainable->parameters()) {
        needs.checkpoint +=
            (2 + adamw->average_count()) * static_cast<int64_t>(parameter.master.nbytes());
      }
    }
  }
  for (const StepSource& source : loop.sources) {
    if (!source.answers) continue;
    const int64_t answers = source.plan.most_units(loop.steps) * source.answers->samples;
    needs.rollouts += steps * rollout_bytes(answers, source.answers->tokens());
  }
  return needs;
}

}  // namespace xrun

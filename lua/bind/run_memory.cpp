// What the loops of a run are planned to hold in memory and held: its record has the fullest one.

#include <exception>

#include "lua/bind/run_loop.h"

namespace xrun {

// A loop that a resume skips whole takes nothing.
void RunLoop::plan_memory(const StepLoop& loop) {
  measure_memory();
  memory_.reset();
  if (optimizers.empty() || loop.steps <= run_->resume_step() - run_->step()) return;
  memory_ = MemoryReport::plan({policies_, optimizers, session_.references}, loop);
  run_->dir().record().set("memory", (fullest_ ? *fullest_ : *memory_).to_json());
  run_->dir().write_record();
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

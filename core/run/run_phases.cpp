// The loops of a run, in the order in which the recipe begins them. A resume skips the saved bodies
// of each; a loop before the last saved one is over, whatever its length is now.

#include <algorithm>

#include "core/base/error.h"
#include "core/run/run.h"

namespace xrun {

void Run::begin_phase(const PhasePlan& plan, const Json& state) {
  if (settings_.steps_limit >= 0 && resume_step_ > settings_.steps_limit) {
    throw UsageError(fmt::format(
        "{}: {} steps are saved, so --steps {} would train nothing; give more steps or leave "
        "--steps out",
        dir_.path().string(), resume_step_, settings_.steps_limit));
  }
  // A `break` runs no code of ours: the open body is noticed when the next loop begins.
  if (in_body_) leave_loop(state);
  ended_body_ = false;
  // Learned again for each loop, whose body is other code.
  updates_known_ = several_updates_ = false;
  body_copy_.forget();
  const size_t index = phases_begun_++;
  earlier_phase_steps_ = 0;
  if (index < at_.phases.size()) {
    check_phase(index, plan);
    // The saved bodies of this loop are skipped, not run.
    step_ += at_.phases[index].done;
  } else {
    at_.phases.emplace_back();
  }
  RunPhase& phase = at_.phases[index];
  // The run had begun a later loop, so this one is over whatever its length is now.
  const bool past = index + 1 < at_.phases.size();
  if (!past) {  // a past loop keeps its number of steps
    earlier_phase_steps_ = phase.total == plan.steps ? 0 : phase.total;
    phase.total = plan.steps;
  }
  phase.data = plan.data;
  sources_ = body_sources_ = nullptr;
  if (!past && !phase.sources.is_null()) sources_ = [saved = phase.sources] { return saved; };
  for (size_t i = 0; i < index; ++i) at_.phases[i].sources = Json();  // over permanently
  Json data = Json::array();
  for (const RunPhase& known : at_.phases) data.push_back(known.data);
  dir_.record().set("data", std::move(data));
  // The last saved loop has passed: no check can refuse this resume any more.
  if (!past) together("the run's folder", [&] { dir_.begin(); });
}

bool Run::limit_reached() const {
  return settings_.steps_limit >= 0 && step_ >= settings_.steps_limit;
}

bool Run::phase_is_over() const {
  const RunPhase& phase = at_.phases[phases_begun_ - 1];
  const bool past = phases_begun_ < at_.phases.size();
  return phase.left || past || phase.done >= phase.total || !at_.stopped.empty();
}

bool Run::cut_by_limit() const {
  if (!limit_reached() || !at_.stopped.empty()) return false;
  return std::any_of(at_.phases.begin(), at_.phases.end(),
                     [](const RunPhase& phase) { return !phase.left && phase.done < phase.total; });
}

int64_t Run::repeated_steps() const {
  const RunPhase& phase = at_.phases[phases_begun_ - 1];
  const int64_t logged = dir_.unsaved_steps();
  int64_t repeated = logged;
  if (earlier_phase_steps_ > phase.total && !phase.left) {
    // Those of this loop that are beyond its new end.
    const int64_t of_loop = std::min(logged, earlier_phase_steps_ - phase.done);
    repeated -= std::max<int64_t>(of_loop - (phase.total - phase.done), 0);
  }
  if (settings_.steps_limit >= 0) {
    repeated = std::min(repeated, settings_.steps_limit - resume_step_);
  }
  return at_.stopped.empty() ? std::max<int64_t>(repeated, 0) : 0;
}

int64_t Run::phase_step() const {
  return phases_begun_ == 0 ? 0 : at_.phases[phases_begun_ - 1].done;
}

void Run::pass_bodies(int64_t count) {
  at_.phases[phases_begun_ - 1].done += count;
  step_ += count;
}

void Run::pass_phase(const PhasePlan& plan) {
  at_.phases.push_back({plan.steps, plan.steps, false, plan.data});
  ++phases_begun_;
  step_ += plan.steps;
}

}  // namespace xrun

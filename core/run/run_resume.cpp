// On a resume the recipe runs again from its first line. step_ counts up from 0 through the saved
// phases, and metrics below resume_step_ are dropped because metrics.jsonl has them. Loops and
// inputs are compared with the saved ones before anything is written.

#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/run/checkpoint_files.h"
#include "core/run/record/difference.h"
#include "core/run/resume.h"
#include "core/run/run.h"

namespace xrun {

void Run::restore() {
  const std::optional<Checkpoint> checkpoint = checkpoints_.load_latest();
  if (!checkpoint) return;
  together("restoring the checkpoint", [&] { checkpoint->restore(saved_); });
  try {
    at_ = RunPosition::from_json(checkpoint->run());
    state_ = decode_state(checkpoint->run().at("state"));
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}; the checkpoint is damaged",
                            (checkpoint->path() / "run.json").string(), error.what()));
  }
  resume_step_ = checkpoint->step();
  if (!at_.stopped.empty() && dir_.may_continue()) {
    continues_stopped_ = true;
    at_.stopped.clear();
    // Loops after the stop began without a body; the loop that it ended is not over.
    while (at_.phases.size() > 1 && at_.phases.back().done == 0) at_.phases.pop_back();
  }
  // The recipe repeats the evaluations at the checkpoint's own step.
  std::erase_if(at_.outside,
                [&](const OutsideEvaluation& one) { return one.step >= resume_step_; });
  last_checkpoint_ = checkpoint->path();
}

void Run::remember(const std::string& what, MetricSpan metrics) {
  // Inside a body a resume runs the evaluation again; outside, its step may be long past.
  if (!in_body_) at_.outside.push_back({step_, what, {metrics.begin(), metrics.end()}});
}

MetricList Run::recall(const std::string& what) {
  const size_t next = recalled_++;
  const bool same = next < at_.outside.size() && at_.outside[next].step == step_ &&
                    at_.outside[next].what == what;
  if (same) return at_.outside[next].metrics;
  return {};  // another recipe, under --force
}

void Run::check_input(std::string_view kind, const std::string& key, const std::string& what,
                      const Json& identity) {
  Json inputs = Json::object();
  if (const Json* known = dir_.record().find("inputs")) inputs = *known;
  if (inputs.find(kind) == nullptr) inputs.set(kind, Json::object());
  const Json* before = inputs.find(kind)->find(key);
  if (before != nullptr && *before == identity) return;
  // Keys may gain fields between versions of xrun; the digest decides.
  if (before != nullptr && resumed() && !(before->at("digest") == identity.at("digest"))) {
    dir_.note_difference(ResumeItem::kInput, what, input_differences(*before, identity));
  }
  inputs.find(kind)->set(key, identity);
  dir_.record().set("inputs", std::move(inputs));
  dir_.write_record();
}

// Compares a loop with the saved one.
void Run::check_phase(size_t index, const PhasePlan& plan) {
  const RunPhase& saved = at_.phases[index];
  const std::string loop = fmt::format("loop {}", index + 1);
  auto changed = find_differences(saved.data, plan.data, "data");
  // The hash covers the fields beside it, which say more.
  if (changed.size() > 1) {
    std::erase_if(changed, [](const Difference& one) { return one.path.ends_with(".plan_hash"); });
  }
  if (!changed.empty()) dir_.note_difference(ResumeItem::kLoopData, loop, changed);
  const bool another_follows = index + 1 < at_.phases.size();
  const std::string steps =
      fmt::format("{} had {} steps and now has {}", at_.phases.size() == 1 ? "the run" : loop,
                  saved.total, plan.steps);
  // A loop that the recipe left by `break` never reached its end.
  if (plan.steps < saved.total && !saved.left) {
    // Even --force cannot take trained steps back, and the schedule would be over before them.
    if (plan.steps < saved.done && !another_follows) {
      throw UsageError(fmt::format(
          "{}: {} saved, so {} would train nothing; give at least {}, or choose another folder with "
          "--run DIR",
          dir_.path().string(), counted(saved.done, "step") + (saved.done == 1 ? " is" : " are"),
          counted(plan.steps, "step"), saved.done));
    }
    dir_.note_difference(ResumeItem::kLoopShrank, steps, {});
  } else if (plan.steps > saved.total && another_follows) {
    dir_.note_difference(ResumeItem::kLoopRegrown, steps, {});
  }
}

}  // namespace xrun

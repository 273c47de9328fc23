// Before a loop trains: what a resume compares, its memory and disk, and the report before step 0.

#include <algorithm>
#include <exception>

#include "core/base/strings.h"
#include "core/console/terminal/summary.h"
#include "core/model/weights/hf_config.h"
#include "core/run/machine.h"
#include "core/train/adamw.h"
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

// A checkpoint holds the trained weights and their moments. Those that are kept are still there while
// the next one is written.
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

// A resumed run has its checkpoints already, so only one more must fit. A preview keeps none.
void RunLoop::check_disk(const StepLoop& loop) const {
  if (session_.previews()) return;
  if (optimizers.empty() || loop.steps <= run_->resume_step() - run_->step()) return;
  const RunSettings& settings = run_->settings();
  const int64_t steps =
      settings.steps_limit < 0 ? loop.steps : std::min(loop.steps, settings.steps_limit);
  const int64_t count =
      run_->resumed() ? 1 : checkpoints_at_once(steps, settings.save_every, settings.save_keep);
  check_disk_space(run_->dir().path(), count * checkpoint_bytes({policies_, optimizers}));
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

// xrun.run has loaded them, except in a preview; a dry run needs none.
void RunLoop::load_weights() {
  const bool loaded = std::all_of(policies_.begin(), policies_.end(),
                                  [](const auto& policy) { return policy->loaded(); });
  if (loaded || session_.models.stand_in() != nullptr) return;
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
    // The figures are lost; the error that ended the run is reported already.
  }
}

namespace {

std::string describe_model(const Policy& policy) {
  const ModelConfig config = read_model_config(policy.dir());
  return fmt::format("{} ({}, {} layer{}, width {}, {})", policy.dir().filename().string(),
                     config.model_type, config.layers, config.layers == 1 ? "" : "s", config.hidden,
                     dtype_name(policy.options().dtype));
}

const char* order_text(const RowOrder& order) {
  switch (order.kind) {
    case RowOrder::Kind::kFile: return "";
    case RowOrder::Kind::kFull: return ", shuffled";
    case RowOrder::Kind::kBlock: return ", shuffled by blocks";
  }
  return "";
}

int64_t count_elements(const std::vector<Parameter>& parameters) {
  int64_t sum = 0;
  for (const Parameter& parameter : parameters) sum += parameter.master.numel();
  return sum;
}

}  // namespace

void RunLoop::report(const StepLoop& loop) {
  OpeningReport report;
  report.recipe = recipe_;
  if (!policies_.empty()) {
    report.model = describe_model(*policies_[0]);
    if (policies_[0]->loaded()) {
      report.parameters = count_elements(policies_[0]->model().parameters());
      report.trainable = count_elements(policies_[0]->parameters());
    }
  }
  report.ledger = session_.data.ledger_text;
  session_.data.ledger_text.clear();
  report.steps = loop.steps;
  for (const StepSource& source : loop.sources) {
    const DataSet& set = source.data->set;
    report.facts.emplace_back(
        "data",
        fmt::format("{} {}{}, {} a step{}", count_text(set.size()), set.unit_name(),
                    set.size() == 1 ? "" : "s", source.plan.units, order_text(source.plan.order)));
  }
  if (memory_) report.facts.emplace_back("memory", describe_plan(memory_->planned()));
  if (!session_.previews()) report.output = run_->dir().path().string();
  report.notices = std::move(session_.notices.lines);
  session_.notices.lines.clear();
  session_.console->print(opening_report(report, *session_.console));
  if (run_->dir().resuming() || loop.phase > 0) return;
  run_->dir().begin();
  run_->dir().log_line(opening_report(report, console_of_file(*session_.console)));
}

}  // namespace xrun

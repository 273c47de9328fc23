// The report before step 0, and the lines of a resume: what is loaded, what a loop draws, and what
// changed since the run was saved.

#include <ATen/Parallel.h>

#include "core/base/strings.h"
#include "core/console/terminal/summary.h"
#include "core/dist/ranks.h"
#include "core/model/weights/hf_config.h"
#include "core/train/adamw.h"
#include "core/train/models/policy.h"
#include "lua/bind/run/loop_rollouts.h"
#include "lua/bind/run/run_memory.h"
#include "lua/bind/run/run_report.h"
#include "lua/bind/run/step_loop.h"

namespace xrun {

namespace {

std::string describe_model(const Policy& policy) {
  const ModelConfig config = read_model_config(policy.dir());
  return fmt::format("{} ({}, {}, width {}, {})", policy.dir().filename().string(),
                     config.model_type, counted(config.layers, "layer"), config.hidden,
                     dtype_name(policy.options().dtype));
}

const char* order_text(const RowOrder& order) {
  switch (order.kind) {
    case RowOrderKind::kFile: return "";
    case RowOrderKind::kFull: return ", shuffled";
    case RowOrderKind::kBlock: return ", shuffled by blocks";
  }
  return "";
}

std::string count_units(const DataSet& set, int64_t count) {
  return counted(count, set.unit_name());
}

// "300 pairs, 38 steps of 8 = 1 epoch, shuffled". Dynamic sampling draws more prompts than it
// trains; the number is not known.
std::string data_text(const StepSource& source, int64_t steps) {
  if (source.rollouts) {
    return fmt::format("{}, {} of {} with varied rewards{}",
                       count_units(source.data->set, source.data->set.size()),
                       counted(steps, "step"), counted(source.plan.units, "group"),
                       order_text(source.plan.order));
  }
  const std::string epochs = format_epochs(source.epochs(steps));
  return fmt::format("{}, {} of {} = {} epoch{}{}",
                     count_units(source.data->set, source.data->set.size()), counted(steps, "step"),
                     size_text(source.plan, steps), epochs, epochs == "1" ? "" : "s",
                     order_text(source.plan.order));
}

// Returns a warning if one step draws a row more than once: the step is larger than the set, and
// the loop makes more than one epoch.
std::string repeated_text(const StepSource& source, int64_t steps) {
  const DataSet& set = source.data->set;
  const int64_t units = source.plan.most_units(steps);
  if (units <= set.size() || source.epochs(steps) <= 1) return "";
  return fmt::format(
      "warning: a step takes {}, the data has {}: every row is repeated within a step; {}",
      count_units(set, units), count_text(set.size()), source.lower_batch_text(steps));
}

int64_t count_elements(const std::vector<Parameter>& parameters) {
  int64_t sum = 0;
  for (const Parameter& parameter : parameters) sum += parameter.master.numel();
  return sum;
}

// "17 steps were logged after the last save; this resume repeats 1 of them and cuts the lines of
// the other 16 from metrics.jsonl", or "".
std::string unsaved_steps_text(int64_t logged, int64_t repeated) {
  if (logged == 0) return "";
  const bool one = logged == 1;
  const std::string steps = fmt::format("{} {} logged after the last save", counted(logged, "step"),
                                        one ? "was" : "were");
  if (repeated == logged) return fmt::format("{} and {} repeated\n", steps, one ? "is" : "are");
  if (repeated == 0) {
    return fmt::format("{}; this resume does not repeat {} and cuts {} from metrics.jsonl\n", steps,
                       one ? "it" : "them", one ? "its line" : "their lines");
  }
  return fmt::format(
      "{}; this resume repeats {} of them and cuts the lines of the other {} from metrics.jsonl\n",
      steps, count_text(repeated), count_text(logged - repeated));
}

}  // namespace

void RunReport::open(const StepLoop& loop, const RunMemory& memory, const std::string& output,
                     const std::string& folds) {
  OpeningReport report;
  report.recipe = recipe_;
  if (!models_.policies.empty()) {
    Policy& policy = *models_.policies.front();
    report.model = describe_model(policy);
    if (policy.loaded()) {
      report.parameters = count_elements(policy.model().parameters());
      report.trainable = count_elements(policy.parameters());
    }
  }
  report.ledger = session_.data.ledger_text;
  session_.data.ledger_text.clear();
  report.steps = loop.steps;
  if (const Ranks* const ranks = run_.settings().ranks; ranks != nullptr) {
    report.facts.emplace_back("ranks", fmt::format("{}, {} each", count_text(ranks->size()),
                                                   counted(at::get_num_threads(), "thread")));
  }
  for (const StepSource& source : loop.sources) {
    report.facts.emplace_back("data", data_text(source, loop.steps));
    session_.notices.add(repeated_text(source, loop.steps));
    if (const std::string text = source.one_label_text(); !text.empty()) {
      session_.notices.add("warning: " + text);
    }
    session_.notices.add(source.lone_answer_text(loop.steps));
  }
  for (const auto& adamw : models_.optimizers) {
    const std::string text = adamw->short_run_text(loop.steps);
    if (!text.empty()) session_.notices.add("warning: " + text);
  }
  for (const StepSource& source : loop.sources) {
    if (const std::string text = describe_rollouts(source); !text.empty()) {
      report.facts.emplace_back("rollouts", text);
    }
  }
  if (!folds.empty()) report.facts.emplace_back("folds", folds);
  if (memory.latest()) {
    report.facts.emplace_back("memory", memory.latest()->text());
  }
  report.output = output;
  measures_peak_ = !output.empty();
  report.notices = std::move(session_.notices.lines);
  session_.notices.lines.clear();
  session_.console->print_raw(opening_report(report, *session_.console));
  // log.txt begins with the first loop of the first process.
  if (run_.dir().resuming() || loop.phase > 0) return;
  run_.dir().begin();
  log_line(opening_report(report, console_of_file(*session_.console)));
}

// A longer loop has another schedule: at the same step its rate is not the one that the saved steps
// would have continued with.
void RunReport::report_resume(const StepLoop& loop) {
  std::string text;
  if (loop.phase == 0 && run_.dir().resuming()) {
    text = resume_line(run_.dir().path().string(), run_.resume_step(), run_.dir().notices());
  }
  if (run_.resumed() && run_.step() == run_.resume_step() && !unsaved_reported_) {
    unsaved_reported_ = true;
    text += unsaved_steps_text(run_.dir().unsaved_steps(), run_.repeated_steps());
  }
  if (const int64_t before = run_.earlier_phase_steps(); before > 0) {
    const int64_t step = run_.phase_step();
    const Json* loops = run_.dir().record().find("data");
    const bool single = loops != nullptr && loops->size() == 1;
    text += fmt::format("{} has {} steps now and had {}",
                        single ? "the run" : fmt::format("loop {}", loop.phase + 1), loop.steps,
                        before);
    for (const auto& [name, object] : run_.saved()) {
      const auto* const adamw = dynamic_cast<const AdamW*>(object.get());
      if (adamw == nullptr) continue;
      // Schedules may agree at first, as in the warmup.
      int64_t changed = step;
      while (changed + 1 < before && adamw->lr(changed, loop.steps) == adamw->lr(changed, before)) {
        ++changed;
      }
      const double now = adamw->lr(changed, loop.steps);
      const double then = adamw->lr(changed, before);
      const bool alone = models_.optimizers.size() == 1;
      text += now == then
                  ? fmt::format("; the learning rate{} does not change", alone ? "" : " of " + name)
                  : fmt::format(
                        "; {} follows the schedule of {} steps: {:.3g} at step {}, {:.3g} "
                        "on the old schedule",
                        alone ? "its learning rate" : "the learning rate of " + name, loop.steps,
                        now, changed, then);
    }
    text += '\n';
  }
  if (text.empty()) return;
  session_.console->print_raw(text);
  log_line(text);
}

}  // namespace xrun

// The lines of a run on its console and in log.txt: the report before step 0, a resume, progress
// and evaluations.

#include <algorithm>

#include "core/base/strings.h"
#include "core/console/terminal/progress.h"
#include "core/console/terminal/summary.h"
#include "core/model/peak_flops.h"
#include "core/model/weights/hf_config.h"
#include "core/train/adamw.h"
#include "lua/bind/run_loop.h"

namespace xrun {

namespace {

constexpr double kPeakAfterS = 2;

std::string describe_model(const Policy& policy) {
  const ModelConfig config = read_model_config(policy.dir());
  return fmt::format("{} ({}, {}, width {}, {})", policy.dir().filename().string(),
                     config.model_type, counted(config.layers, "layer"), config.hidden,
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

double epochs_of(const StepSource& source, int64_t steps) {
  if (source.plan.epochs > 0) return static_cast<double>(source.plan.epochs);
  return static_cast<double>(steps * source.plan.units) /
         static_cast<double>(source.data->set.size());
}

std::string count_units(const DataSet& set, int64_t count) {
  return counted(count, set.unit_name());
}

// "300 pairs, 38 steps of 8 = 1 epoch, shuffled".
std::string data_text(const StepSource& source, int64_t steps) {
  const std::string epochs = format_epochs(epochs_of(source, steps));
  return fmt::format("{}, {} of {} = {} epoch{}{}",
                     count_units(source.data->set, source.data->set.size()), counted(steps, "step"),
                     count_text(source.plan.units), epochs, epochs == "1" ? "" : "s",
                     order_text(source.plan.order));
}

// A warning if one step draws a row more than once: more than the set has, from a stream that is
// longer than the set.
std::string repeated_text(const StepSource& source, int64_t steps) {
  const DataSet& set = source.data->set;
  const int64_t units = source.plan.units;
  if (units <= set.size() || epochs_of(source, steps) <= 1) return "";
  return fmt::format(
      "warning: a step takes {}, the data has {}: every row is repeated within a step; lower the "
      "batch to at most {}",
      count_units(set, units), count_text(set.size()), count_text(set.size()));
}

int64_t count_elements(const std::vector<Parameter>& parameters) {
  int64_t sum = 0;
  for (const Parameter& parameter : parameters) sum += parameter.master.numel();
  return sum;
}

}  // namespace

double epochs_of(const StepLoop& loop) { return epochs_of(loop.sources.front(), loop.steps); }

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
    report.facts.emplace_back("data", data_text(source, loop.steps));
    session_.notices.add(repeated_text(source, loop.steps));
  }
  for (const auto& adamw : optimizers) {
    if (loop.steps != 1 || adamw->lr(0, 1) > 0) continue;
    session_.notices.add(
        "warning: optim.warmup covers the only step, whose learning rate is 0; nothing is trained: "
        "set optim.warmup=0");
  }
  if (!fold_text_.empty()) report.facts.emplace_back("folds", fold_text_);
  if (memory_) report.facts.emplace_back("memory", describe_plan(memory_->planned()));
  if (!session_.previews()) report.output = run_->dir().path().string();
  report.notices = std::move(session_.notices.lines);
  session_.notices.lines.clear();
  session_.console->print(opening_report(report, *session_.console));
  if (run_->dir().resuming() || loop.phase > 0) return;
  run_->dir().begin();
  log_line(opening_report(report, console_of_file(*session_.console)));
}

// A longer loop has another schedule: at the same step its rate is not the one that the saved steps
// would have continued with.
void RunLoop::report_resume(const StepLoop& loop) {
  std::string text;
  if (loop.phase == 0 && run_->dir().resuming()) {
    text = resume_line(run_->dir().path().string(), run_->resume_step(), run_->dir().notices());
  }
  if (const int64_t before = run_->earlier_phase_steps(); before > 0) {
    const int64_t step = run_->phase_step();
    text += fmt::format("loop {} has {} steps now and had {}", loop.phase + 1, loop.steps, before);
    for (const auto& adamw : optimizers) {
      const double now = adamw->lr(step, loop.steps);
      const double then = adamw->lr(step, before);
      text += now == then ? "; the learning rate does not change"
                          : fmt::format(
                                "; its learning rate follows the schedule of {} steps: {:.3g} "
                                "at step {}, {:.3g} on the old schedule",
                                loop.steps, now, step, then);
    }
    text += '\n';
  }
  if (text.empty()) return;
  session_.console->print(text);
  log_line(text);
}

void RunLoop::report_body_copy() {
  if (copy_reported_ || run_->body_copy_bytes() == 0) return;
  copy_reported_ = true;
  session_.console->print(fmt::format(
      "the bodies of this loop make several updates: each begins with a copy of what the run saves "
      "({} of the host's memory), which an error inside it restores",
      format_bytes(static_cast<double>(run_->body_copy_bytes()))));
}

// The probe takes 0.2 s, so a run that is over sooner than kPeakAfterS goes without. The peak of a
// GPU is not measured.
void RunLoop::measure_peak() {
  if (peak_flops_ > 0 || run_->seconds() < kPeakAfterS) return;
  if (policies_.empty() || !device().is_cpu() || session_.previews()) return;
  const PolicyOptions& options = policies_.front()->options();
  const bool widened = options.gemm == GemmType::kFloat;
  peak_flops_ = measured_peak_flops(widened ? c10::ScalarType::Float : options.dtype);
}

void RunLoop::show_progress(const StepLoop& loop) {
  if (quiet) return;
  const StepSource& first = loop.sources.front();
  const auto size = static_cast<double>(first.data->set.size());
  const auto units = static_cast<double>(first.plan.units);
  StepProgress progress;
  progress.done = loop.batch_step + 1;
  progress.total = loop.steps;
  progress.epoch = std::min(static_cast<double>(progress.done) * units / size, epochs_of(loop));
  progress.epochs = epochs_of(loop);
  progress.loss = find_metric(last_train_, "train/loss");
  progress.accuracy = find_metric(last_train_, "train/accuracy");
  progress.margin = find_metric(last_train_, "train/margin");
  progress.reward = find_metric(last_train_, "rollout/reward");
  progress.tokens = body_tokens_;
  progress.update_s = find_metric(last_train_, "perf/step_s").value_or(0);
  progress.flops = find_metric(last_train_, "perf/flops_per_s").value_or(0) * progress.update_s;
  if (progress.flops > 0) measure_peak();
  progress.peak_flops = peak_flops_;
  const std::string line = progress_->step(progress);
  if (!line.empty()) log_line(line);
}

// "step 10  valid  loss 0.0914  accuracy 1.00", for the set whose loss has this name.
void RunLoop::show_evaluation(const Metrics& metrics, const std::string& loss) {
  const std::string set = loss.substr(0, loss.rfind('/'));
  std::string text = fmt::format("step {}  {}  loss {}", run_->step(), set,
                                 format_metric(*find_metric(metrics, loss)));
  if (const auto accuracy = find_metric(metrics, set + "/accuracy")) {
    text += fmt::format("  accuracy {:.2f}", *accuracy);
  }
  session_.console->say(text);
  log_line(text);
}

}  // namespace xrun

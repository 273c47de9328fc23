// Each line goes to the console in its width and colours, and to log.txt as plain text. Previews
// have no folder to log into.

#include "lua/bind/run_report.h"

#include <algorithm>
#include <exception>

#include "core/base/strings.h"
#include "core/console/terminal/summary.h"
#include "core/model/cost/peak_flops.h"
#include "core/model/weights/hf_config.h"
#include "core/rollout/rollout_log.h"
#include "core/run/record/run_summary.h"
#include "core/train/adamw.h"
#include "core/train/policy.h"
#include "lua/bind/run_memory.h"
#include "lua/bind/step_loop.h"

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

std::string count_units(const DataSet& set, int64_t count) {
  return counted(count, set.unit_name());
}

// "300 pairs, 38 steps of 8 = 1 epoch, shuffled".
std::string data_text(const StepSource& source, int64_t steps) {
  const std::string epochs = format_epochs(source.epochs(steps));
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
  if (units <= set.size() || source.epochs(steps) <= 1) return "";
  return fmt::format(
      "warning: a step takes {}, the data has {}: every row is repeated within a step; {}",
      count_units(set, units), count_text(set.size()), source.lower_batch_text());
}

// A warning if all answers of a set have one label, so that nothing tells good ones from bad ones.
std::string one_label_text(const DataSet& set) {
  const auto label = set.only_label();
  if (!label) return "";
  return fmt::format(
      "warning: all {} are labelled {} and none {}; KTO learns from both: check the labels of the "
      "data",
      count_units(set, set.size()), *label != 0 ? "good" : "bad", *label != 0 ? "bad" : "good");
}

int64_t count_elements(const std::vector<Parameter>& parameters) {
  int64_t sum = 0;
  for (const Parameter& parameter : parameters) sum += parameter.master.numel();
  return sum;
}

}  // namespace

RunReport::RunReport(Session& session, Run& run, const RunModels& models, std::string recipe)
    : session_(session),
      run_(run),
      models_(models),
      recipe_(std::move(recipe)),
      earlier_ledger_(run.dir().earlier_ledger()) {}

void RunReport::open(const StepLoop& loop, const RunMemory& memory, const std::string& folds) {
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
  for (const StepSource& source : loop.sources) {
    report.facts.emplace_back("data", data_text(source, loop.steps));
    session_.notices.add(repeated_text(source, loop.steps));
    session_.notices.add(one_label_text(source.data->set));
  }
  for (const auto& adamw : models_.optimizers) {
    if (loop.steps != 1 || adamw->lr(0, 1) > 0) continue;
    session_.notices.add(
        "warning: optim.warmup covers the only step, whose learning rate is 0; nothing is trained: "
        "set optim.warmup=0");
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
  if (!session_.previews()) report.output = run_.dir().path().string();
  report.notices = std::move(session_.notices.lines);
  session_.notices.lines.clear();
  session_.console->print(opening_report(report, *session_.console));
  if (run_.dir().resuming() || loop.phase > 0) return;
  run_.dir().begin();
  log_line(opening_report(report, console_of_file(*session_.console)));
}

void RunReport::begin_loop(const StepLoop& loop) {
  report_resume(loop);
  progress_.emplace(*session_.console);
  progress_->start();
}

void RunReport::begin_body() {
  report_body_copy();
  last_train_.clear();
  body_tokens_ = 0;
}

void RunReport::end_progress() {
  if (progress_) progress_->finish();
}

void RunReport::skip_wait() {
  if (progress_) progress_->skip_wait();
}

double RunReport::body_seconds() const { return progress_ ? progress_->body_seconds() : 0; }

void RunReport::log_line(const std::string& text) noexcept {
  try {
    run_.dir().log_line(text.ends_with('\n') ? text.substr(0, text.size() - 1) : text);
  } catch (const std::exception&) {
    // The console has the text.
  }
}

void RunReport::say(const std::string& text) {
  session_.console->say(text);
  log_line(text);
}

void RunReport::write_ledger() {
  if (ledger_sources_ == session_.data.ledger.sources.size()) return;
  run_.dir().write_ledger(session_.data.ledger.joined_to(earlier_ledger_).to_json());
  ledger_sources_ = session_.data.ledger.sources.size();
  if (session_.data.ledger_text.empty()) return;
  session_.console->say(session_.data.ledger_text);
  session_.data.ledger_text.clear();
}

void RunReport::log(const Metrics& metrics) {
  if (find_metric(metrics, "train/loss")) {
    last_train_ = metrics;
  } else if (const auto margin = find_metric(metrics, "train/margin")) {
    last_train_.emplace_back("train/margin", *margin);  // logged beside the loss, as kto.lua does
  }
  if (run_.replaying()) return;
  for (const auto& [name, value] : metrics) {
    if (name.starts_with("valid/") && name.ends_with("/loss")) show_evaluation(metrics, name);
  }
}

// "step 0: 8 prompts x 4 samples = 32 answers, 1 update, loss: the mean over 1,024 tokens,
// on-policy"
void RunReport::say_updates(const BodyRollouts& body) {
  const std::string path = body.updates.path();
  const std::string kind = path.substr(0, path.find(" ("));
  if (body.updates.updates == 0 || !said_paths_.insert(kind).second) return;
  std::string text;
  if (said_paths_.size() == 1) {
    std::set<const void*> prompts;
    int64_t answers = 0;
    for (const auto& one : body.all) {
      if (!one->trained) continue;
      prompts.insert(one->prompt_ids.get());
      ++answers;
    }
    const auto groups = std::ssize(prompts);
    text = answers % groups == 0
               ? fmt::format("{} x {} = {}", counted(groups, "prompt"),
                             counted(answers / groups, "sample"), counted(answers, "answer"))
               : fmt::format("{} to {}", counted(answers, "answer"), counted(groups, "prompt"));
    text += fmt::format(" trained, {}, loss: {}", counted(body.updates.updates, "update"),
                        body.updates.loss);
  }
  if (!path.empty()) add_item(text, "loss path: " + path);
  session_.console->say(fmt::format("step {}: {}", run_.step(), text));
}

void RunReport::log_rollouts(const Metrics& metrics, const BodyRollouts& body) {
  say_updates(body);
  const auto count = std::ssize(body.all);
  const auto reward = find_metric(metrics, "rollout/reward");
  if (!reward) return;
  last_train_.emplace_back("rollout/reward", *reward);
  const double groups = find_metric(metrics, "rollout/groups").value_or(0);
  const bool equal = find_metric(metrics, "rollout/zero_variance_groups") == groups;
  // Groups of one sample have no variance to begin with.
  if (!equal || static_cast<double>(count) <= groups || equal_rewards_reported_) return;
  equal_rewards_reported_ = true;
  session_.console->say(fmt::format(
      "step {}: in every group all rewards are equal (mean {}), so every advantage is 0 and the "
      "step learns nothing from them; the prompts are too hard or too easy, or the reward is "
      "wrong. rollout/zero_variance_groups counts such groups",
      run_.step(), format_metric(*reward)));
}

void RunReport::close(const RunMemory& memory) {
  RunSummary summary = run_.summary();
  summary.skipped = session_.notices.skipped_steps;
  memory.add_to(summary);
  summary.recipe = recipe_;
  session_.console->print(closing_summary(summary, *session_.console));
  log_line(closing_summary(summary, console_of_file(*session_.console)));
}

// A longer loop has another schedule: at the same step its rate is not the one that the saved steps
// would have continued with.
void RunReport::report_resume(const StepLoop& loop) {
  std::string text;
  if (loop.phase == 0 && run_.dir().resuming()) {
    text = resume_line(run_.dir().path().string(), run_.resume_step(), run_.dir().notices());
  }
  if (const int64_t before = run_.earlier_phase_steps(); before > 0) {
    const int64_t step = run_.phase_step();
    const Json* loops = run_.dir().record().find("data");
    const bool single = loops != nullptr && loops->size() == 1;
    text += fmt::format("{} has {} steps now and had {}",
                        single ? "the run" : fmt::format("loop {}", loop.phase + 1), loop.steps,
                        before);
    for (const auto& adamw : models_.optimizers) {
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

void RunReport::report_body_copy() {
  if (copy_reported_ || run_.body_copy_bytes() == 0) return;
  copy_reported_ = true;
  session_.console->print(fmt::format(
      "the bodies of this loop make several updates: each begins with a copy of what the run saves "
      "({} of the host's memory), which an error inside it restores",
      format_bytes(static_cast<double>(run_.body_copy_bytes()))));
}

// The probe takes 0.2 s, so a run that is over sooner than kPeakAfterS goes without. The peak of a
// GPU is not measured.
void RunReport::measure_peak() {
  if (peak_flops_ > 0 || run_.seconds() < kPeakAfterS) return;
  if (models_.policies.empty() || session_.previews()) return;
  const PolicyOptions& options = models_.policies.front()->options();
  if (!options.device.is_cpu()) return;
  const bool widened = options.gemm == GemmType::kFloat;
  peak_flops_ = measured_peak_flops(widened ? c10::ScalarType::Float : options.dtype);
}

void RunReport::end_body(const StepLoop& loop) {
  if (quiet) return;
  const StepSource& first = loop.sources.front();
  const auto size = static_cast<double>(first.data->set.size());
  const auto units = static_cast<double>(first.plan.units);
  StepProgress progress;
  progress.done = loop.batch_step + 1;
  progress.total = loop.steps;
  progress.epoch = std::min(static_cast<double>(progress.done) * units / size, loop.epochs());
  progress.epochs = loop.epochs();
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
void RunReport::show_evaluation(const Metrics& metrics, const std::string& loss) {
  const std::string set = loss.substr(0, loss.rfind('/'));
  std::string text = fmt::format("step {}  {}  loss {}", run_.step(), set,
                                 format_metric(*find_metric(metrics, loss)));
  if (const auto accuracy = find_metric(metrics, set + "/accuracy")) {
    text += fmt::format("  accuracy {:.2f}", *accuracy);
  }
  say(text);
}

}  // namespace xrun

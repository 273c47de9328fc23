// Each line goes to the console in its width and colours, and to log.txt as plain text. Previews
// have no folder to log into.

#include "lua/bind/run/run_report.h"

#include <algorithm>
#include <exception>

#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/console/terminal/summary.h"
#include "core/model/cost/peak_flops.h"
#include "core/run/record/metrics_file.h"
#include "core/run/record/run_summary.h"
#include "core/train/models/policy.h"
#include "lua/bind/run/run_memory.h"
#include "lua/bind/run/step_loop.h"

namespace xrun {

namespace {

// The share of peak FLOPs matters to long runs; a short test should not wait for the probe.
constexpr double kPeakAfterS = 2;

}  // namespace

RunReport::RunReport(Session& session, Run& run, const RunModels& models, std::string recipe)
    : session_(session),
      run_(run),
      models_(models),
      recipe_(std::move(recipe)),
      earlier_ledger_(run.dir().earlier_ledger()) {}

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

void RunReport::add_measuring(double seconds) {
  if (progress_) progress_->add_measuring(seconds);
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
  session_.console->print_escaped(text);
  log_line(text);
}

void RunReport::write_ledger() {
  if (ledger_sources_ == session_.data.ledger.sources.size()) return;
  run_.dir().write_ledger(session_.data.ledger.joined_to(earlier_ledger_).to_json());
  ledger_sources_ = session_.data.ledger.sources.size();
  if (session_.data.ledger_text.empty()) return;
  session_.console->print_escaped(session_.data.ledger_text);
  session_.data.ledger_text.clear();
}

// Warns once a run. Data sets are checked when they are aligned, but sampled answers first come
// here.
void RunReport::report_coverage(const Metrics& metrics) {
  constexpr double kLeastCoverage = 0.9;
  const auto coverage = find_metric(metrics, "align/coverage");
  if (coverage_reported_ || !coverage || *coverage >= kLeastCoverage) return;
  coverage_reported_ = true;
  say(
      fmt::format("warning: step {}: {:.1f} % of the trained tokens are in a chunk with the "
                  "teacher's, the others get no supervision from it; align/wrong, align/one_sided, "
                  "align/invalid and align/tokens_cut count the reasons",
                  run_.step(), 100 * *coverage));
}

void RunReport::log(const Metrics& metrics) {
  report_coverage(metrics);
  has_scores_ = has_scores_ || find_metric(metrics, "sample/score");
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

void RunReport::log_rollouts(const Metrics& metrics, const BodyRollouts& body) {
  if (const auto reward = find_metric(metrics, "rollout/reward")) {
    last_train_.emplace_back("rollout/reward", *reward);
    has_scores_ = true;
  }
  for (const std::string& line : rollout_notices_.after_body(run_.step(), metrics, body)) {
    session_.console->print_escaped(line);
  }
}

// metrics.jsonl has the values of the whole run, those of earlier processes included.
void RunReport::add_scores(RunSummary& summary) const {
  if (!has_scores_) return;
  try {
    const RunMetrics logged = read_metrics(run_.dir().file("metrics.jsonl"));
    for (const char* name : {"rollout/reward", "sample/score"}) {
      const MetricSeries* series = logged.find(name);
      if (series == nullptr) continue;
      const std::string_view full = name;
      summary.scores.push_back({std::string(full.substr(full.find('/') + 1)), series->steps.front(),
                                series->steps.back(), series->values.front(),
                                series->values.back()});
    }
  } catch (const Error&) {
    // A finished run does not fail because this file cannot be read.
  }
}

void RunReport::close(const RunMemory& memory) {
  RunSummary summary = run_.summary();
  summary.skipped = session_.notices.skipped_steps;
  // A recipe without an optimizer only evaluates.
  summary.never_updated = run_.never_updated() && !models_.optimizers.empty();
  memory.add_to(summary);
  add_scores(summary);
  summary.recipe = recipe_;
  session_.console->print_raw(closing_summary(summary, *session_.console));
  log_line(closing_summary(summary, console_of_file(*session_.console)));
}

void RunReport::report_body_copy() {
  if (copy_reported_ || run_.body_copy_bytes() == 0) return;
  copy_reported_ = true;
  session_.console->print_raw(fmt::format(
      "the bodies of this loop make several updates: each begins with a copy of what the run saves "
      "({} of the host's memory), which is restored after an error in the body",
      format_bytes(static_cast<double>(run_.body_copy_bytes()))));
}

// The probe takes 0.2 s, so a run shorter than kPeakAfterS goes without it. The peak of a GPU is
// not measured.
void RunReport::measure_peak(double reached) {
  if (!measures_peak_ || peak_flops_ >= reached || run_.seconds() < kPeakAfterS) return;
  if (models_.policies.empty()) return;
  const PolicyOptions& options = models_.policies.front()->options();
  if (!options.device.is_cpu()) return;
  const bool widened = options.gemm == GemmType::kFloat;
  peak_flops_ = measured_peak_flops(widened ? c10::ScalarType::Float : options.dtype, reached);
}

void RunReport::end_body(const StepLoop& loop) {
  if (quiet) return;
  const StepSource& first = loop.sources.front();
  const auto size = static_cast<double>(first.data->set.size());
  StepProgress progress;
  progress.done = loop.batch_step + 1;
  progress.total = loop.steps;
  const double drawn = static_cast<double>(first.plan.units_before(progress.done));
  progress.epoch = std::min(drawn / size, loop.epochs());
  progress.epochs = loop.epochs();
  if (first.queue) {
    // The epochs of the whole loop are projected from the prompts drawn so far.
    progress.epoch = static_cast<double>(first.queue->cursor()) / size;
    progress.epochs =
        progress.epoch * static_cast<double>(progress.total) / static_cast<double>(progress.done);
  }
  progress.loss = find_metric(last_train_, "train/loss");
  progress.accuracy = find_metric(last_train_, "train/accuracy");
  progress.margin = find_metric(last_train_, "train/margin");
  progress.kd = find_metric(last_train_, "train/kd");
  progress.ce = find_metric(last_train_, "train/ce");
  progress.reward = find_metric(last_train_, "rollout/reward");
  const Json* const valid = run_.dir().identity().config.find("valid");
  const Json* const every = valid == nullptr ? nullptr : valid->find("every");
  if (every != nullptr && every->is_int()) progress.measure_every = every->as_int();
  progress.tokens = body_tokens_;
  progress.update_s = find_metric(last_train_, "perf/step_s").value_or(0);
  const double flops_per_s = find_metric(last_train_, "perf/flops_per_s").value_or(0);
  progress.flops = flops_per_s * progress.update_s;
  if (flops_per_s > 0) measure_peak(flops_per_s);
  progress.peak_flops = peak_flops_;
  const std::string line = progress_->step(progress);
  if (!line.empty()) log_line(line);
}

void RunReport::show_save(const StepLoop& loop) {
  const std::string text = fmt::format("saved {}", run_.last_checkpoint().string());
  const int64_t every = run_.settings().save_every;
  const bool last = loop.batch_step + 1 == loop.steps;
  if (last || (every > 0 && run_.step() % every == 0)) {
    log_line(text);
  } else {
    say(text);
  }
}

// Prints "step 10  valid  loss 0.0914  accuracy 1.00" for the set whose loss has this name.
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

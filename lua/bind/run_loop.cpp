// Order of a loop: report, phase, then for each body begin, batch, updates and metrics, end; the
// run saves inside end_body.

#include "lua/bind/run_loop.h"

#include <algorithm>
#include <exception>

#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/console/terminal/summary.h"
#include "core/model/peak.h"
#include "core/run/signals.h"
#include "core/train/adamw.h"
#include "core/train/data_batch.h"
#include "core/train/reference.h"

namespace xrun {

namespace {

constexpr double kPeakAfterS = 2;
constexpr const char* kStopping = "\nstopping; another Ctrl-C stops at once, without saving\n";
constexpr const char* kStoppingStep =
    "\nstopping after this step; another Ctrl-C stops at once, without saving\n";

std::shared_ptr<Batch> next_batch(const StepSource& source, const LoopBody& body,
                                  int64_t max_tokens, c10::Device device) {
  const DataHandle& data = *source.data;
  BatchInfo info;
  info.step = body.step;
  info.phase_step = body.phase_step;
  info.total_steps = body.phase_steps;
  info.seed = source.plan.seed;
  info.max_length = data.max_length;
  info.device = device;
  return data_batch(data.set, *data.extra, data.set.step_units(source.plan, body.phase_step),
                    max_tokens, std::move(info));
}

}  // namespace

RunLoop::RunLoop(Session& session, std::string recipe, int64_t seed, std::unique_ptr<Run> run,
                 std::vector<std::shared_ptr<Policy>> policies)
    : session_(session),
      recipe_(std::move(recipe)),
      seed_(static_cast<uint64_t>(seed)),
      run_(std::move(run)),
      policies_(std::move(policies)) {
  for (const auto& policy : policies_) {
    policy->set_snapshot_dir(run_->dir().path() / "reference");
  }
  earlier_ledger_ = run_->dir().earlier_ledger();
}

c10::Device RunLoop::device() const { return device_of(policies_); }

// Step + 1, because 0 seeds the recipe before its first loop (recipe.cpp).
void RunLoop::seed_random(lua_State* L, int64_t part) const {
  seed_recipe(LuaState::of(L), seed_, run_->step() + 1, part);
}

void RunLoop::seed_lua(lua_State* L, int64_t part) const {
  seed_lua_random(LuaState::of(L), seed_, run_->step() + 1, part);
}

int64_t RunLoop::next_evaluation() {
  if (evaluated_step_ != run_->step()) evaluations_ = 0;
  evaluated_step_ = run_->step();
  return evaluations_++;
}

void RunLoop::check(const SessionInputs::Input& input) {
  run_->check_input(input.kind, input.key, input.what, input.identity);
}

void RunLoop::throw_with_batch(const NonFiniteLoss& error,
                               std::span<const PackedBatch* const> packs,
                               const RowName& name) const {
  const bool narrow = std::any_of(policies_.begin(), policies_.end(), [](const auto& policy) {
    return policy->options().dtype != c10::ScalarType::Float;
  });
  if (session_.previews()) throw Error(error.what());  // its folder goes with it
  throw Error(fmt::format("{}; {}{}", error.what(),
                          save_failed_batch(run_->dir().path(), run_->step(), packs, name),
                          narrow ? "; set dtype = \"fp32\" to see whether it is the type" : ""));
}

void RunLoop::begin(StepLoop& loop, const Json& state) {
  for (const StepSource& source : loop.sources) source.data->set.check_fits(loop.max_tokens);
  const StepSource& first = loop.sources.front();
  const DataSet& set = first.data->set;
  // With a given number of steps the stream continues past the last one.
  const int64_t last = first.plan.epochs == 0 || loop.steps == 0
                           ? first.plan.units
                           : std::ssize(set.step_units(first.plan, loop.steps - 1));
  if (last < first.plan.units) {
    session_.notices.add(
        fmt::format("the last batch of the data is partial: {} of {} {}s; it trains too", last,
                    first.plan.units, set.unit_name()));
  }
  const PhasePlan plan = phase_plan_of(loop);
  plan_memory(loop);
  check_disk(loop);
  loop.phase = phases_++;
  loop.begun = true;
  report(loop);
  run_->begin_phase(plan, state);
  loop.first_step = run_->step() - run_->phase_step();
  keep_ledger();
  report_resume(loop);
  progress_.emplace(*session_.console);
  progress_->start();
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

// The probe takes 0.2 s, so a run that is over sooner than kPeakAfterS goes without. The peak of a
// GPU is not measured.
void RunLoop::measure_peak() {
  if (peak_flops_ > 0 || run_->seconds() < kPeakAfterS) return;
  if (policies_.empty() || !device().is_cpu() || session_.previews()) return;
  const PolicyOptions& options = policies_.front()->options();
  const bool widened = options.gemm == GemmType::kFloat;
  peak_flops_ = measured_peak_flops(widened ? c10::ScalarType::Float : options.dtype);
}

void RunLoop::log_line(const std::string& text) noexcept {
  try {
    run_->dir().log_line(text.ends_with('\n') ? text.substr(0, text.size() - 1) : text);
  } catch (const std::exception&) {
    // The console has the text.
  }
}

void RunLoop::keep_ledger() {
  if (phases_ == 0 || ledger_sources_ == session_.data.ledger.sources.size()) return;
  run_->dir().write_ledger(session_.data.ledger.joined_to(earlier_ledger_).to_json());
  ledger_sources_ = session_.data.ledger.sources.size();
  if (session_.data.ledger_text.empty()) return;
  session_.console->say(session_.data.ledger_text);
  session_.data.ledger_text.clear();
}

bool RunLoop::settle(StepLoop& loop, const Json& state) {
  XRUN_CHECK(!loop.begun || loop.phase + 1 == phases_,
             "this loop was left when another one began; its bodies cannot continue");
  if (!loop.begun) begin(loop, state);
  for (StepSource& source : loop.sources) {
    if (!source.batch) continue;
    source.batch->close();
    source.batch.reset();
  }
  if (!run_->in_body()) return false;
  for (const auto& reference : session_.models.references()) reference->flush_arrived();
  run_->end_body(state);
  show_progress(loop);
  return true;
}

void RunLoop::take_back() {
  run_->take_back();
  write_state(run_->body_state());
}

void RunLoop::pass(StepLoop& loop) {
  loop.passed = true;
  if (loop.begun) return end_progress();
  run_->pass_phase(phase_plan_of(loop));
  loop.phase = phases_++;
  loop.begun = true;
}

std::optional<LoopBody> RunLoop::upcoming(const StepLoop& loop) const {
  if (loop.passed) return std::nullopt;
  if (loop.begun) return run_->upcoming();
  if (loop.steps == 0) return std::nullopt;
  return LoopBody{loop.first_step, 0, loop.steps};
}

namespace {

LoopBody body_at(const StepLoop& loop, int64_t step) {
  XRUN_CHECK(step >= loop.first_step && step < loop.first_step + loop.steps,
             "step {} is beyond the data: this loop has {}", step,
             loop.steps == 0 ? "no steps"
                             : fmt::format("steps {} to {}", loop.first_step,
                                           loop.first_step + loop.steps - 1));
  return {step, step - loop.first_step, loop.steps};
}

}  // namespace

std::vector<PackedBatch> RunLoop::packs(const StepLoop& loop, int64_t step, size_t source) const {
  const LoopBody body = body_at(loop, step);
  const StepSource& from = loop.sources.at(source);
  const DataSet& set = from.data->set;
  return set.pack(set.step_units(from.plan, body.phase_step), loop.max_tokens);
}

std::shared_ptr<Batch> RunLoop::make_batch(const StepLoop& loop, int64_t step,
                                           size_t source) const {
  return next_batch(loop.sources.at(source), body_at(loop, step), loop.max_tokens, device());
}

std::optional<LoopBody> RunLoop::next(StepLoop& loop, const Json& state) {
  settle(loop, state);
  const std::optional<LoopBody> body = run_->begin_body(state);
  report_body_copy();
  // A preview saves nothing and has its own text.
  if (!session_.previews()) set_stopping_text(body ? kStoppingStep : kStopping);
  if (!body) {
    progress_->finish();
    return std::nullopt;
  }
  open_ = &loop;
  loop.batch_step = body->phase_step;
  body_tokens_ = 0;
  last_train_.clear();
  for (StepSource& source : loop.sources) {
    source.batch = next_batch(source, *body, loop.max_tokens, device());
  }
  return body;
}

void RunLoop::report_body_copy() {
  if (copy_reported_ || run_->body_copy_bytes() == 0) return;
  copy_reported_ = true;
  session_.console->print(fmt::format(
      "the bodies of this loop make several updates: each begins with a copy of what the run saves "
      "({} of the host's memory), which an error inside it restores",
      format_bytes(static_cast<double>(run_->body_copy_bytes()))));
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
  progress.tokens = body_tokens_;
  progress.update_s = find_metric(last_train_, "perf/step_s").value_or(0);
  progress.flops = find_metric(last_train_, "perf/flops_per_s").value_or(0) * progress.update_s;
  if (progress.flops > 0) measure_peak();
  progress.peak_flops = peak_flops_;
  const std::string line = progress_->step(progress);
  if (!line.empty()) log_line(line);
}

void RunLoop::leave_loop(const Json& state) {
  for (const auto& reference : session_.models.references()) reference->flush();
  run_->leave_loop(state);
  end_progress();
}

void RunLoop::log(const Metrics& metrics) {
  run_->log(metrics);
  if (find_metric(metrics, "train/loss")) last_train_ = metrics;
  if (run_->replaying()) return;
  for (const auto& [name, value] : metrics) {
    if (name.starts_with("valid/") && name.ends_with("/loss")) show_evaluation(metrics, name);
  }
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

void RunLoop::note_update(int64_t tokens) {
  body_tokens_ += tokens;
  if (!run_->in_body()) return;
  run_->count_tokens(tokens);
  run_->mark_updated();
}

void RunLoop::end_progress() {
  if (progress_) progress_->finish();
}

void RunLoop::finish(const Json& state) {
  end_progress();
  keep_ledger();
  for (const auto& reference : session_.models.references()) {
    reference->flush();
    reference->check_digest();
  }
  measure_memory();
  run_->finish(state);
  RunSummary summary = run_->summary();
  summary.skipped = session_.notices.skipped_steps;
  if (fullest_) {
    summary.planned_bytes = total_bytes(fullest_->planned());
    summary.tensor_bytes = fullest_->measured();
    summary.tensors_on_host = fullest_->device().is_cpu();
  }
  summary.recipe = recipe_;
  session_.console->print(closing_summary(summary, *session_.console));
  log_line(closing_summary(summary, console_of_file(*session_.console)));
}

}  // namespace xrun

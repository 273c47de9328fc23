// Order of a loop: report, phase, then for each body begin, batch, updates and metrics, end; the
// run saves inside end_body.

#include "lua/bind/run_loop.h"

#include <algorithm>
#include <array>
#include <exception>

#include "core/base/error.h"
#include "core/console/terminal/summary.h"
#include "core/rollout/rollout_log.h"
#include "core/run/signals.h"
#include "core/train/data_batch.h"
#include "core/train/reference.h"
#include "lua/state/error_report.h"

namespace xrun {

namespace {

constexpr const char* kStopping = "\nstopping; another Ctrl-C stops at once, without saving\n";

// Sets the text of Ctrl-C inside a step. Two buffers take turns, since a signal may be printing the
// one of the step before.
void set_stopping_step(double seconds) {
  static std::array<std::string, 2> texts;
  static size_t next = 0;
  std::string& text = texts[next];
  next = 1 - next;
  text = "\n" + stopping_line(seconds) + "\n";
  set_stopping_text(text.c_str());
}

std::shared_ptr<Batch> next_batch(const StepSource& source, const LoopBody& body,
                                  const StepLoop& loop, c10::Device device) {
  const DataHandle& data = *source.data;
  BatchInfo info;
  info.fold = loop.fold;
  info.step = body.step;
  info.phase_step = body.phase_step;
  info.total_steps = body.phase_steps;
  info.seed = source.plan.seed;
  info.max_length = data.max_length;
  info.device = device;
  return data_batch(data.set, *data.extra, data.set.step_units(source.plan, body.phase_step),
                    loop.max_tokens, std::move(info));
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
void RunLoop::seed_random(lua_State* L, int64_t stream) const {
  seed_recipe(LuaState::of(L), seed_, run_->step() + 1, stream);
}

void RunLoop::seed_lua(lua_State* L, int64_t stream) const {
  seed_lua_random(LuaState::of(L), seed_, run_->step() + 1, stream);
}

int64_t RunLoop::next_evaluation() {
  if (evaluated_step_ != run_->step()) evaluations_ = 0;
  evaluated_step_ = run_->step();
  return evaluations_++;
}

void RunLoop::check(const SessionInputs::Input& input) {
  outside_recipe([&] { run_->check_input(input.kind, input.key, input.what, input.identity); });
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
  for (const StepSource& source : loop.sources) {
    source.data->set.check_fits(pack_limits(loop.max_tokens, loop.fold));
  }
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
  // Whatever may refuse the loop comes before begin_phase, which writes it into the run.
  plan_memory(loop);
  outside_recipe([&] { check_disk(loop); });
  check_folding(loop);
  loop.phase = phases_++;
  loop.begun = true;
  report(loop);
  outside_recipe([&] { run_->begin_phase(plan, state); });
  loop.first_step = run_->step() - run_->phase_step();
  write_ledger();
  report_resume(loop);
  progress_.emplace(*session_.console);
  progress_->start();
}

void RunLoop::log_line(const std::string& text) noexcept {
  try {
    run_->dir().log_line(text.ends_with('\n') ? text.substr(0, text.size() - 1) : text);
  } catch (const std::exception&) {
    // The console has the text.
  }
}

void RunLoop::write_ledger() {
  if (phases_ == 0 || ledger_sources_ == session_.data.ledger.sources.size()) return;
  run_->dir().write_ledger(session_.data.ledger.joined_to(earlier_ledger_).to_json());
  ledger_sources_ = session_.data.ledger.sources.size();
  if (session_.data.ledger_text.empty()) return;
  session_.console->say(session_.data.ledger_text);
  session_.data.ledger_text.clear();
}

bool RunLoop::end_body(StepLoop& loop, const Json& state) {
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
  log_rollouts();
  run_->end_body(state);
  show_progress(loop);
  return true;
}

// Before the body ends: a full disk then fails inside it, where the run's state can be saved.
void RunLoop::log_rollouts() {
  if (rollouts == nullptr) return;
  const Metrics metrics = rollout_metrics(*rollouts);
  run_->log(metrics);
  if (const auto reward = find_metric(metrics, "rollout/reward")) {
    last_train_.emplace_back("rollout/reward", *reward);
    const double groups = find_metric(metrics, "rollout/groups").value_or(0);
    const bool equal = find_metric(metrics, "rollout/zero_variance_groups") == groups;
    // Groups of one sample have no variance to begin with.
    if (equal && std::ssize(rollouts->all) > groups && !equal_rewards_reported_) {
      equal_rewards_reported_ = true;
      session_.console->say(fmt::format(
          "step {}: in every group all rewards are equal (mean {}), so every advantage is 0 and "
          "the "
          "step learns nothing from them; the prompts are too hard or too easy, or the reward is "
          "wrong. rollout/zero_variance_groups counts such groups",
          run_->step(), format_metric(*reward)));
    }
  }
  if (!session_.previews()) {
    outside_recipe(
        [&] { write_rollouts(run_->dir().path() / "rollouts", run_->step(), *rollouts); });
  }
  rollouts.reset();
}

void RunLoop::take_back() {
  run_->take_back();
  write_state(run_->body_state());
}

void RunLoop::end_early(StepLoop& loop) {
  loop.ended = true;
  if (loop.begun) return end_progress();
  run_->pass_phase(phase_plan_of(loop));
  loop.phase = phases_++;
  loop.begun = true;
}

std::optional<LoopBody> RunLoop::upcoming(const StepLoop& loop) const {
  if (loop.ended) return std::nullopt;
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
  return set.pack(set.step_units(from.plan, body.phase_step),
                  pack_limits(loop.max_tokens, loop.fold));
}

std::shared_ptr<Batch> RunLoop::make_batch(const StepLoop& loop, int64_t step,
                                           size_t source) const {
  return next_batch(loop.sources.at(source), body_at(loop, step), loop, device());
}

std::optional<LoopBody> RunLoop::next(StepLoop& loop, const Json& state) {
  end_body(loop, state);
  const std::optional<LoopBody> body = run_->begin_body(state);
  report_body_copy();
  // A preview saves nothing and has its own text.
  if (!session_.previews()) {
    if (body) {
      set_stopping_step(progress_ ? progress_->body_seconds() : 0);
    } else {
      set_stopping_text(kStopping);
    }
  }
  if (!body) {
    progress_->finish();
    return std::nullopt;
  }
  open_ = &loop;
  loop.batch_step = body->phase_step;
  body_tokens_ = 0;
  last_train_.clear();
  update_sums_.clear();
  rollouts.reset();
  for (StepSource& source : loop.sources) {
    source.batch = next_batch(source, *body, loop, device());
  }
  return body;
}

void RunLoop::leave_loop(const Json& state) {
  for (const auto& reference : session_.models.references()) reference->flush();
  run_->leave_loop(state);
  end_progress();
}

// The metrics of an update as means over the body's updates so far, with train/updates from the
// second on: rollouts may be trained several times.
Metrics RunLoop::mean_of_updates(const Metrics& metrics) {
  if (!find_metric(metrics, "train/grad_norm")) return metrics;
  Metrics means;
  for (const auto& [name, value] : metrics) {
    auto& [sum, count] = update_sums_[name];
    sum += value;
    means.emplace_back(name, sum / static_cast<double>(++count));
  }
  const int64_t updates = update_sums_.at("train/grad_norm").second;
  if (updates > 1) means.emplace_back("train/updates", static_cast<double>(updates));
  return means;
}

void RunLoop::log(const Metrics& given) {
  const Metrics metrics = mean_of_updates(given);
  run_->log(metrics);
  if (find_metric(metrics, "train/loss")) {
    last_train_ = metrics;
  } else if (const auto margin = find_metric(metrics, "train/margin")) {
    last_train_.emplace_back("train/margin", *margin);  // logged beside the loss, as kto.lua does
  }
  if (run_->replaying()) return;
  for (const auto& [name, value] : metrics) {
    if (name.starts_with("valid/") && name.ends_with("/loss")) show_evaluation(metrics, name);
  }
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
  write_ledger();
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

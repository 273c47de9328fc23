#include "lua/bind/run_loop.h"

#include "core/base/error.h"
#include "core/console/summary.h"
#include "core/model/hf_config.h"
#include "core/train/preference_batch.h"
#include "core/train/reference.h"

namespace xrun {

namespace {

// Micro-batches of another phase draw other random numbers.
uint64_t phase_seed(uint64_t seed, int64_t phase) {
  return seed ^ (static_cast<uint64_t>(phase) * 0x9E3779B97F4A7C15ULL);
}

std::string describe_model(const Policy& policy) {
  const ModelConfig config = read_model_config(policy.dir());
  return fmt::format("{} ({}, {} layers, width {}, {})", policy.dir().filename().string(),
                     config.model_type, config.layers, config.hidden,
                     dtype_name(policy.options().dtype));
}

std::optional<double> find(const Metrics& metrics, std::string_view name) {
  for (const auto& [key, value] : metrics) {
    if (key == name) return value;
  }
  return std::nullopt;
}

}  // namespace

RunLoop::RunLoop(Session& session, std::string recipe, std::unique_ptr<Run> run,
                 std::vector<std::shared_ptr<Policy>> policies)
    : session_(session),
      recipe_(std::move(recipe)),
      run_(std::move(run)),
      policies_(std::move(policies)) {
  for (const auto& policy : policies_) {
    policy->set_snapshot_dir(run_->dir().path() / "reference");
  }
}

void RunLoop::report(const StepLoop& loop) {
  OpeningReport report;
  report.recipe = recipe_;
  if (!policies_.empty()) {
    report.model = describe_model(*policies_[0]);
    report.parameters = 0;
    for (const Parameter& parameter : policies_[0]->parameters()) {
      report.parameters += parameter.master.numel();
    }
    report.trainable = report.parameters;
  }
  report.ledger = std::move(session_.ledger_text);
  session_.ledger_text.clear();
  report.steps = loop.steps;
  report.facts.emplace_back("data",
                            fmt::format("{} pairs, {} a step{}", count_text(loop.data->set.size()),
                                        loop.plan.pairs, loop.plan.shuffle ? ", shuffled" : ""));
  report.output = run_->dir().path().string();
  report.notices = std::move(session_.notices);
  session_.notices.clear();
  const std::string text = opening_report(report, *session_.console);
  session_.console->print(text);
  if (run_->dir().resuming() || loop.phase > 0) return;
  run_->dir().begin();
  run_->dir().log_line(text);
}

void RunLoop::begin(StepLoop& loop, const Json& state) {
  loop.data->set.check_fits(loop.max_tokens);
  const int64_t rest = loop.data->set.size() % loop.plan.pairs;
  if (rest != 0 && phases_ == 0 && loop.plan.epochs > 0) {
    session_.notices.push_back(
        fmt::format("the last batch of the data is partial: {} of {} pairs; it trains too", rest,
                    loop.plan.pairs));
  }
  PhasePlan plan;
  plan.steps = loop.steps;
  plan.data = Json(Json::Object{{"fingerprint", loop.data->set.fingerprint()},
                                {"rows", loop.data->set.size()},
                                {"pairs_a_step", loop.plan.pairs},
                                {"seed", static_cast<int64_t>(loop.plan.seed)},
                                {"shuffle", loop.plan.shuffle}});
  loop.phase = phases_++;
  report(loop);
  run_->begin_phase(plan, state);
  if (loop.phase == 0) {
    run_->dir().write_ledger(session_.ledger);
    if (run_->dir().resuming()) {
      session_.console->print(resume_line(run_->dir(), run_->resume_step()));
    }
  }
  progress_.emplace(*session_.console);
  progress_->start();
  loop.begun = true;
}

std::optional<Body> RunLoop::next(StepLoop& loop, const Json& state) {
  if (!loop.begun) begin(loop, state);
  if (loop.batch) loop.batch->close();
  loop.batch.reset();
  if (run_->in_body()) {
    for (const auto& reference : session_.references) reference->flush();
    const int64_t done = loop.batch_step + 1;
    run_->end_body(state);
    show_progress(done, loop.steps);
  }
  const std::optional<Body> body = run_->begin_body(state);
  if (!body) {
    progress_->finish();
    return std::nullopt;
  }
  loop.batch_step = body->phase_step;
  body_tokens_ = 0;
  last_train_.clear();
  BatchInfo info;
  info.step = body->phase_step;
  info.total_steps = body->phase_steps;
  info.seed = phase_seed(loop.plan.seed, loop.phase);
  loop.batch =
      preference_batch(loop.data->set, loop.data->set.step_rows(loop.plan, body->phase_step),
                       loop.max_tokens, std::move(info));
  return body;
}

void RunLoop::show_progress(int64_t done, int64_t total) {
  StepProgress progress;
  progress.done = done;
  progress.total = total;
  progress.loss = find(last_train_, "train/loss").value_or(0);
  progress.accuracy = find(last_train_, "train/accuracy");
  progress.tokens = body_tokens_;
  progress_->step(progress);
}

void RunLoop::log(const Metrics& metrics) {
  run_->log(metrics);
  if (find(metrics, "train/loss")) last_train_ = metrics;
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
  for (const auto& reference : session_.references) {
    reference->flush();
    reference->check_digest();
  }
  run_->finish(state);
  const std::string text = closing_summary(run_->summary(), *session_.console);
  session_.console->print(text);
  run_->dir().log_line(text);
}

}  // namespace xrun

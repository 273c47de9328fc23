// Order of a loop: report, phase, then for each body begin, batch, updates and metrics, end; the
// run saves inside end_body.

#include "lua/bind/run/run_loop.h"

#include <algorithm>
#include <array>

#include "core/align/aligned_rows.h"
#include "core/base/error.h"
#include "core/console/terminal/summary.h"
#include "core/dist/agreement.h"
#include "core/dist/watch/flight_record.h"
#include "core/rollout/rollout_log.h"
#include "core/run/machine.h"
#include "core/run/rank_check.h"
#include "core/run/record/run_digests.h"
#include "core/run/signals.h"
#include "core/train/adamw.h"
#include "core/train/models/frozen_model.h"
#include "core/train/models/policy.h"
#include "core/train/models/reference.h"
#include "lua/bind/recipe_seed.h"
#include "lua/bind/run/loop_rollouts.h"
#include "lua/bind/run/rollout_draws.h"
#include "lua/state/error_report.h"
#include "lua/state/outside_error.h"

namespace xrun {

namespace {

constexpr const char* kStopping = "\nstopping; another Ctrl-C stops at once, without saving\n";

// Sets the text that Ctrl-C prints inside a step. Two buffers take turns, since a signal may still
// be printing the text of the previous step.
void set_stopping_step(double seconds) {
  static std::array<std::string, 2> texts;
  static size_t next = 0;
  std::string& text = texts[next];
  next = 1 - next;
  text = "\n" + stopping_line(seconds) + "\n";
  set_stopping_text(text.c_str());
}

bool has_queues(const StepLoop& loop) {
  return std::any_of(loop.sources.begin(), loop.sources.end(),
                     [](const StepSource& source) { return source.queue != nullptr; });
}

// Digests of the weights that this process has read. Policies that the run does not save are left
// out: which of them are still alive depends on Lua's garbage collector.
Json weight_digests(const RunModels& models, const SessionModels& opened) {
  Json out = Json::object();
  int64_t number = 0;
  for (const auto& policy : models.policies) {
    ++number;
    if (policy->loaded()) out.set(fmt::format("policy {}", number), policy->initial_digest());
  }
  number = 0;
  for (const auto& frozen : opened.frozen_models()) {
    ++number;
    if (!frozen->is_replaced()) out.set(fmt::format("frozen model {}", number), frozen->digest());
  }
  return out;
}

}  // namespace

RunLoop::RunLoop(Session& session, std::string recipe, int64_t seed, std::unique_ptr<Run> run,
                 RunModels models)
    : session_(session),
      recipe_(std::move(recipe)),
      seed_(static_cast<uint64_t>(seed)),
      run_(std::move(run)),
      models_(std::move(models)),
      memory_(*run_),
      report_(session_, *run_, models_, recipe_) {
  for (const auto& policy : models_.policies) {
    // Beside the checkpoints, since a reference taken later is part of the run's state.
    policy->set_snapshot_dir(run_->dir().path() / "reference");
  }
}

RunModels RunLoop::models() const {
  // Asked now: a recipe may take references after xrun.run.
  return with_session_models(models_, session_.models);
}

c10::Device RunLoop::device() const { return device_of(models_.policies); }

// Position step + 1, since position 0 seeds the recipe before its first loop (recipe.cpp).
void RunLoop::seed_random(lua_State* L, int64_t stream) const {
  seed_recipe(LuaState::of(L), seed_, run_->step() + 1, stream);
}

void RunLoop::seed_lua(lua_State* L, int64_t stream) const {
  seed_lua_random(LuaState::of(L), seed_, run_->step() + 1, stream);
}

void RunLoop::seed_after_update(lua_State* L) {
  constexpr int64_t kUpdateStream = int64_t{1} << 33;  // evaluations count up from 2
  seed_random(L, kUpdateStream + body_updates_++);
}

int64_t RunLoop::next_evaluation() {
  // Numbered within a step, so that a resumed run seeds its evaluations as the first one did.
  if (evaluated_step_ != run_->step()) evaluations_ = 0;
  evaluated_step_ = run_->step();
  return evaluations_++;
}

void RunLoop::throw_with_batch(const NonFiniteLoss& error,
                               std::span<const PackedBatch* const> packs,
                               const RowName& name) const {
  const bool narrow = std::any_of(policies().begin(), policies().end(), [](const auto& policy) {
    return policy->options().dtype != c10::ScalarType::Float;
  });
  const std::string saved = run_->keep_failed_batch(packs, name);
  if (saved.empty()) throw Error(error.what());
  throw Error(fmt::format("{}; {}{}", error.what(), saved,
                          narrow ? "; set dtype = \"fp32\" to see whether it is the type" : ""));
}

void RunLoop::begin(StepLoop& loop, const Json& state) {
  if (run_->in_body()) log_rollouts(*this);  // `break` left the loop before
  for (const StepSource& source : loop.sources) {
    // Checked with the answers first: otherwise a limit raised for the prompts alone would fail the
    // next check.
    check_prompts_fit(loop, source);
    source.data->set.check_fits(pack_limits(loop.max_tokens, loop.fold));
  }
  const StepSource& first = loop.sources.front();
  const DataSet& set = first.data->set;
  // With a given number of steps the stream continues past the last one.
  const int64_t wanted = first.plan.units_at(loop.steps - 1);
  const int64_t last = first.plan.epochs == 0 || loop.steps == 0
                           ? wanted
                           : std::ssize(set.step_units(first.plan, loop.steps - 1));
  if (last < wanted && !first.rollouts) {
    session_.notices.add(
        fmt::format("the last batch of the data is partial: {} of {} {}s; it trains too", last,
                    wanted, set.unit_name()));
  }
  const PhasePlan plan = loop.phase_plan();
  // Everything that may refuse the loop comes before begin_phase, which writes it into the run.
  Ranks* const ranks = run_->settings().ranks;
  // A plan that fails on one rank must end all of them, or the others would wait.
  agree(ranks, "the memory plan", [&] { plan_memory(loop); });
  run_->write_out("the disk", [&] { outside_recipe([&] { check_disk(loop); }); });
  outside_recipe([&] { compare_plans(ranks, "data", plan.data); });
  compare_weights();
  if (memory_.latest()) {
    outside_recipe([&] { compare_plans(ranks, "memory plan", memory_.latest()->shared_json()); });
  }
  // A preview trains few steps, if any, and takes no time for checks.
  const bool saves = run_->settings().saves;
  loop.checks_folding = saves;
  const std::string folds = saves ? check_folding(*this, loop) : "";
  loop.phase = phases_++;
  loop.begun = true;
  report_.open(loop, memory_, saves ? run_->dir().path().string() : "", folds);
  outside_recipe([&] { run_->begin_phase(plan, state); });
  loop.first_step = run_->step() - run_->phase_step();
  // After begin_phase, which reads the waiting groups from the checkpoint.
  restore_queues(loop, run_->sources());
  if (run_->dir().resuming()) {
    // This loop may follow one that has logged steps since the resume.
    run_->write_out("the record of rollouts", [&] {
      cut_rollouts(run_->dir().path() / "rollouts", std::max(run_->resume_step(), run_->step()));
    });
  }
  write_ledger();
  report_.begin_loop(loop);
}

void RunLoop::compare_weights() {
  Ranks* const ranks = run_->settings().ranks;
  if (ranks == nullptr) return;
  Json own;
  // A folder that one rank cannot read must end all of them.
  agree(ranks, "the models' digests", [&] { own = weight_digests(models_, session_.models); });
  outside_recipe([&] { compare_plans(ranks, "model weights", own); });
}

bool RunLoop::trains(const StepLoop& loop) const {
  return !models_.optimizers.empty() && !is_replayed(loop);
}

bool RunLoop::is_replayed(const StepLoop& loop) const {
  return loop.steps <= run_->resume_step() - run_->step();
}

void RunLoop::plan_memory(const StepLoop& loop) {
  memory_.end_loop();
  load_weights();
  if (trains(loop)) memory_.plan(models(), loop);
}

// Needed in a preview, where xrun.run has not loaded them.
void RunLoop::load_weights() {
  if (std::none_of(policies().begin(), policies().end(),
                   [](const auto& policy) { return policy->needs_weights(); })) {
    return;
  }
  if (!models_.optimizers.empty()) check_before_load(models_);
  for (const auto& policy : policies()) policy->model();
}

// One checkpoint must fit, or nothing would be saved. Without room for all that may be written, the
// user is warned while nothing is lost yet. A resumed run has its checkpoints already.
void RunLoop::check_disk(const StepLoop& loop) {
  if (!trains(loop)) return;
  const RunSettings& settings = run_->settings();
  const int64_t steps =
      settings.steps_limit < 0 ? loop.steps : std::min(loop.steps, settings.steps_limit);
  int64_t count = settings.save_every > 0 ? steps / settings.save_every + 1 : 1;
  // The time of a step is not known yet, so any step may be one that saves.
  if (settings.save_minutes > 0) count = steps;
  const int64_t done = std::max<int64_t>(run_->resume_step() - run_->step(), 0);
  DiskNeeds needs = disk_needs(models_, loop, std::max<int64_t>(steps - done, 0));
  // One more than are kept: the newest is complete before the oldest is removed.
  needs.checkpoints = run_->resumed() ? 1 : std::clamp<int64_t>(count, 1, settings.save_keep + 1);
  session_.notices.add(check_disk_space(run_->dir().path(), needs));
}

void RunLoop::write_ledger() {
  if (phases_ > 0) report_.write_ledger();  // the report before step 0 has the first part
}

void RunLoop::say(const std::string& line) {
  if (!line.empty()) report_.say(line);
}

void RunLoop::warn_of_damage() {
  const auto warn = [&](const SidecarCounts& counts) {
    if (!counts.damage.empty() && damage_said_.insert(counts.damage).second) {
      say("warning: " + counts.damage);
    }
  };
  for (const auto& reference : session_.models.references()) warn(reference->counts());
  for (const auto& frozen : session_.models.frozen_models()) {
    warn(frozen->logprobs().counts());
    warn(frozen->row_counts());
  }
}

bool RunLoop::end_body(StepLoop& loop, const Json& state) {
  XRUN_CHECK(!loop.begun || loop.phase + 1 == phases_,
             "this loop was left when another one began; its bodies cannot continue");
  if (!loop.begun) begin(loop, state);
  for (StepSource& source : loop.sources) {
    if (!source.batch) continue;
    // A recipe may still hold the batch; its graphs and hidden states go now.
    source.batch->close();
    source.batch.reset();
  }
  if (!run_->in_body()) return false;
  for (const auto& reference : session_.models.references()) reference->flush_arrived();
  for (const auto& frozen : session_.models.frozen_models()) frozen->flush_arrived();
  warn_of_damage();
  log_rollouts(*this);
  // Run::end_body does not say whether it saved; a new path shows it.
  const std::filesystem::path saved_before = run_->last_checkpoint();
  run_->end_body(state);
  report_.end_body(loop);
  if (run_->last_checkpoint() != saved_before) report_.show_save(loop);
  if (first_steps) say(first_steps->compare(run_->last_metrics()));
  return true;
}

void RunLoop::take_back() {
  run_->take_back();
  if (current_loop) restore_queues(*current_loop, run_->sources());
  write_state(run_->body_state());
}

void RunLoop::end_early(StepLoop& loop) {
  loop.ended = true;
  if (loop.begun) return report_.end_progress();
  // A loop without a body still counts: later loops keep their numbers in a resume.
  run_->pass_phase(loop.phase_plan());
  loop.phase = phases_++;
  loop.begun = true;
}

std::optional<LoopBody> RunLoop::upcoming(const StepLoop& loop) const {
  if (loop.ended) return std::nullopt;
  if (loop.begun) return run_->upcoming();
  if (loop.steps == 0) return std::nullopt;
  return LoopBody{loop.first_step, 0};
}

std::optional<LoopBody> RunLoop::next(StepLoop& loop, const Json& state) {
  end_body(loop, state);
  const std::optional<LoopBody> body = run_->begin_body(state);
  report_.begin_body();
  // A preview has its own text.
  if (run_->settings().saves) {
    if (body) {
      set_stopping_step(report_.body_seconds());
    } else {
      set_stopping_text(kStopping);
    }
  }
  if (!body) {
    // The plan covers the loop only: an export may merge an adapter into a copy of the weights.
    memory_.end_loop();
    report_.end_progress();
    return std::nullopt;
  }
  flight_record().set_step(body->step);
  open_ = &loop;
  loop.batch_step = body->phase_step;
  update_sums_.clear();
  body_updates_ = 0;
  session_.rollouts.reset();
  for (size_t i = 0; i < loop.sources.size(); ++i) {
    StepSource& source = loop.sources[i];
    source.batch = source.rollouts ? draw_rollouts(loop.thread, *this, loop, source, body->step)
                                   : loop.make_batch(body->step, device(), i);
  }
  // After the draw, so that a checkpoint of this body has the groups that wait now.
  if (has_queues(loop)) run_->set_sources(queue_snapshot(loop));
  return body;
}

// Not left to destructors: a full disk would silently lose the values.
void RunLoop::flush_sidecars() {
  for (const auto& reference : session_.models.references()) reference->flush();
  for (const auto& frozen : session_.models.frozen_models()) frozen->flush();
  for (const auto& alignment : session_.data.alignments) {
    if (const auto rows = alignment.lock()) rows->flush();
  }
}

void RunLoop::leave_loop(const Json& state) {
  log_rollouts(*this);
  flush_sidecars();
  run_->leave_loop(state);
  report_.end_progress();
}

// The metrics of an update as means over the body's updates so far, with train/updates from the
// second on: rollouts may be trained several times.
Metrics RunLoop::mean_of_updates(const Metrics& metrics) {
  // Only adamw:step gives train/grad_norm; other metrics pass as they are.
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
  report_.log(metrics);
}

void RunLoop::note_update(int64_t tokens) {
  report_.count_tokens(tokens);
  if (!run_->in_body()) return;
  run_->count_tokens(tokens);
  run_->mark_updated();
}

void RunLoop::finish(const Json& state) {
  if (run_->in_body()) log_rollouts(*this);  // `break` left the loop before
  report_.end_progress();
  report_.write_ledger();  // also of a run without a loop
  flush_sidecars();
  for (const auto& reference : session_.models.references()) reference->check_digest();
  for (const auto& frozen : session_.models.frozen_models()) frozen->check_digest();
  memory_.end_loop();
  run_->finish(state);
  // One rank writes: another's temporary file would be among the files that are hashed.
  run_->write_out("the digests of the run", [&] { write_run_digests(run_->dir().path()); });
  if (first_steps) say(first_steps->end());
  report_.close(memory_);
}

}  // namespace xrun

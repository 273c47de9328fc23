// Only the recipe's own coroutine can be suspended: `run:steps` yields to Recipe::resume.

#include "lua/prompt/pause_hooks.h"

#include <csignal>
#include <exception>

#include "core/base/error.h"
#include "core/base/interrupt.h"
#include "core/run/signals.h"
#include "core/train/adamw.h"
#include "lua/bind/run/run_loop.h"
#include "lua/bind/run/run_session.h"
#include "lua/state/args.h"
#include "lua/state/interruption.h"

namespace xrun {

namespace {

// Time for a C function to return after an interruption: a coroutine inside one cannot be
// suspended.
constexpr double kCallbackPatienceS = 2;

// Clears the signal, since the pause answers it.
std::shared_ptr<const ErrorReport> interruption_report(lua_State* L) {
  LuaState::clear_interrupt(SIGINT);
  clear_interrupt(SIGINT);
  auto report = std::make_shared<ErrorReport>();
  report->signal_number = SIGINT;
  report->message = "interrupted";
  locate(L, 0, 0, *report);
  return report;
}

// Returns the objectives of adamw:step(batch, f) or adamw:step{ { batch, f }, ... } on the stack.
std::vector<std::shared_ptr<LuaRef>> objectives_on(lua_State* L) {
  std::vector<std::shared_ptr<LuaRef>> objectives;
  const StackGuard guard(L);
  if (!lua_istable(L, 2)) {
    objectives.push_back(std::make_shared<LuaRef>(L, 3));
    return objectives;
  }
  for (int k = 1; k <= static_cast<int>(lua_objlen(L, 2)); ++k) {
    lua_rawgeti(L, 2, k);
    lua_rawgeti(L, -1, 2);
    objectives.push_back(std::make_shared<LuaRef>(L, lua_gettop(L)));
    lua_pop(L, 2);
  }
  return objectives;
}

}  // namespace

bool LoopPause::in_body() const { return failure != nullptr && run->run().in_body(); }

std::string LoopPause::wait_text() const {
  const std::string position = failure->position();
  return fmt::format("where {}{}",
                     failure->signal_number != 0 ? "it was interrupted" : "a call failed",
                     position.empty() ? "" : ", at " + position);
}

FrameNames recipe_names(Recipe& recipe) {
  if (recipe.done()) return FrameNames::saved(recipe.state());
  const auto& run = session_of(recipe.state()).run;
  return FrameNames(recipe.thread(), run == nullptr ? nullptr : run->current_loop.get());
}

PauseHooks::PauseHooks(Recipe& recipe) : recipe_(recipe) { recipe.context().hooks = this; }

PauseHooks::~PauseHooks() {
  detach_prompt();
  recipe_.context().hooks = nullptr;
}

bool PauseHooks::resume() {
  // Time at the prompt does not count as time of a step.
  if (pause_ != nullptr && pause_->run != nullptr) pause_->run->report().skip_wait();
  pause_ = nullptr;
  // The depth at which no C++ function waits for Lua; may_suspend compares with it.
  entered_ = recipe_.state().service<EnteredFunctions>().stack.size();
  const bool yielded = recipe_.resume();
  if (!yielded) pause_ = nullptr;
  return yielded;
}

// After :reload, nothing of the earlier state may be used.
void PauseHooks::restart(const std::string& text) {
  recipe_.restart(text);
  pause_ = nullptr;
  trained_.clear();
  last_step_ = {};
}

bool PauseHooks::previews() const {
  return recipe_.context().options.purpose == RecipePurpose::kPreview;
}

void PauseHooks::attach_prompt() {
  prompt_open_ = true;
  // Only under an open prompt may Ctrl-C suspend the recipe.
  LuaState& state = recipe_.state();
  state.may_suspend = [this](lua_State* L, int signal) { return may_suspend(L, signal); };
  state.suspending = [this](lua_State* L, int) { wait(interruption_report(L)); };
}

void PauseHooks::detach_prompt() {
  prompt_open_ = false;
  last_step_ = {};
  trained_.clear();
  recipe_.state().may_suspend = nullptr;
  recipe_.state().suspending = nullptr;
}

std::shared_ptr<Batch> PauseHooks::trained(size_t source) const {
  return source < trained_.size() ? trained_[source] : nullptr;
}

bool PauseHooks::between_bodies(lua_State* L, const std::shared_ptr<StepLoop>& loop) {
  // Under a prompt Ctrl-C asks for a pause here and does not end the run.
  if (prompt_open_ && interrupt_signal() == SIGINT) {
    LuaState::clear_interrupt(SIGINT);
    clear_interrupt(SIGINT);
    plan.at_once = true;
  }
  if (loop->ended) return false;
  RunLoop& run = *session().run;
  bool ended = false;
  // A preview pauses before the loop begins: no report, no plan, no weights.
  if (loop->begun || !previews() || !plan.at_once) {
    // end_body drops the loop's batches, but the prompt may still ask for them.
    std::vector<std::shared_ptr<Batch>> batches;
    for (const StepSource& source : loop->sources) batches.push_back(source.batch);
    ended = run.end_body(*loop, run.read_state());
    if (prompt_open_ && batches.front() != nullptr) trained_ = std::move(batches);
  }
  return take_pause(L, loop, ended);
}

// `upcoming` is true if the loop has another body.
bool PauseHooks::is_due(bool ended_body, bool upcoming, int64_t step) {
  if (ended_body && plan.bodies > 0) --plan.bodies;
  if (take_pause_request()) plan.at_once = true;
  // A loop that a resume skips ends no body and has none to come.
  if (!ended_body && !upcoming) return false;
  return plan.at_once || plan.bodies == 0 || (upcoming && plan.before_step == step);
}

bool PauseHooks::take_pause(lua_State* L, const std::shared_ptr<StepLoop>& loop, bool ended_body) {
  const auto& run = session().run;
  const int64_t step = run->run().step();
  const bool upcoming = run->upcoming(*loop).has_value();
  // A preview also pauses at a loop without steps.
  if (!is_due(ended_body, upcoming || (previews() && !loop->begun), step)) return false;
  // A pause before a later step stays planned.
  plan = {.before_step = plan.before_step > step ? plan.before_step : -1};
  if (L != recipe_.thread()) {
    const std::string cause =
        "this loop runs in a coroutine, which cannot be paused between bodies";
    XRUN_CHECK(!previews(), "{}; write the loop in the recipe's main chunk", cause);
    session().console->print_raw(fmt::format("step {}: no prompt: {}", step, cause));
    return false;
  }
  pause_ = std::make_shared<LoopPause>(LoopPause{loop, run, step});
  return true;
}

std::optional<Metrics> PauseHooks::before_step(lua_State* L, const std::vector<StepTerm>& terms) {
  if (prompt_open_) {
    last_step_ = {objectives_on(L), terms.front().batch->step(), arg<std::shared_ptr<AdamW>>(L, 1)};
  }
  // With a stand-in, log-probs are made up: losses are computed, but no weight changes.
  if (session().models.stand_in() == nullptr) return std::nullopt;
  if (on_dry_step) on_dry_step(terms);
  // Without an optimizer train_step() updates nothing.
  StepOptions options;
  options.poll = [L] { check_interrupt(L); };
  return train_step(terms, nullptr, options);
}

bool PauseHooks::can_wait(lua_State* L) const {
  const auto& run = session().run;
  return prompt_open_ && L == recipe_.thread() && run != nullptr && run->current_loop != nullptr;
}

void PauseHooks::wait(std::shared_ptr<const ErrorReport> failure) {
  const auto& run = session().run;
  pause_ = std::make_shared<LoopPause>(
      LoopPause{run->current_loop, run, run->run().step(), std::move(failure)});
}

// Under a prompt a failed call suspends its body, so that the objective can be corrected. After an
// error that ends a preview its names can still be read.
bool PauseHooks::on_failure(lua_State* L, std::shared_ptr<const ErrorReport> failure,
                            bool ends_recipe) {
  if (ends_recipe && previews()) save_frame_names(L);
  if (ends_recipe || !can_wait(L)) return false;
  wait(failure != nullptr ? std::move(failure) : interruption_report(L));
  return true;
}

Suspension PauseHooks::may_suspend(lua_State* L, int signal_number) const {
  if (signal_number != SIGINT || !can_wait(L)) return Suspension::kNone;
  // Inside a function that C++ called, such as an objective, the caller stops it instead.
  const size_t entered = LuaState::of(L).service<EnteredFunctions>().stack.size();
  if (entered != entered_) return Suspension::kNone;
  if (lua_isyieldable(L) != 0) return Suspension::kNow;
  // Lets a C function such as table.sort finish, but does not wait forever.
  const bool patient = LuaState::interrupt_age_s() < kCallbackPatienceS;
  return patient ? Suspension::kSoon : Suspension::kNone;
}

namespace {

void resume_with_prompt(Recipe& recipe, std::optional<int64_t> repl_at,
                        const std::function<void(PauseHooks&)>& open) {
  PauseHooks hooks(recipe);
  install_pause_handler();
  hooks.plan.before_step = repl_at.value_or(-1);
  bool paused = false;
  while (!recipe.done() && hooks.resume()) {
    if (hooks.pause() == nullptr) recipe.refuse_yield();
    hooks.session().run->report().end_progress();
    paused = true;
    open(hooks);
    if (recipe.failure()) std::rethrow_exception(recipe.failure());
  }
  // The run went well, but the step never came.
  if (!repl_at || paused) return;
  const auto& run = hooks.session().run;
  hooks.session().console->print_raw(
      fmt::format("--repl-at {}: no body of this step began{}", *repl_at,
                  run == nullptr ? "" : fmt::format("; the run has {} bodies", run->run().step())));
}

}  // namespace

int run_with_prompt(const RecipeOptions& options, std::optional<int64_t> repl_at,
                    const std::function<void(PauseHooks&)>& open) {
  RunSession session(options);
  try {
    resume_with_prompt(session.recipe(), repl_at, open);
    return session.end();
  } catch (...) {
    session.fail();
  }
}

}  // namespace xrun

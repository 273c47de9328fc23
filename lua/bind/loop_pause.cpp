#include "lua/bind/loop_pause.h"

#include <csignal>

#include "core/base/error.h"
#include "core/base/interrupt.h"
#include "lua/bind/recipe.h"
#include "lua/bind/run_loop.h"
#include "lua/bind/session.h"

namespace xrun {

namespace {

PausePlan& plan_of(lua_State* L) { return LuaState::of(L).service<PausePlan>(); }

bool is_looked_at(lua_State* L) {
  return recipe_context(L).options.purpose == RecipePurpose::kLook;
}

// `upcoming`: the loop has another body.
bool is_due(PausePlan& plan, bool ended_body, bool upcoming, int64_t step) {
  if (ended_body && plan.bodies > 0) --plan.bodies;
  if (take_pause_request()) plan.at_once = true;
  // A loop that a resume skips has neither.
  if (!ended_body && !upcoming) return false;
  return plan.at_once || plan.bodies == 0 || (upcoming && plan.before_step == step);
}

}  // namespace

bool LoopPause::in_body() const { return failure != nullptr && run->run().in_body(); }

std::string LoopPause::wait_text() const {
  const std::string place = failure->position();
  return fmt::format("where {}{}",
                     failure->signal_number != 0 ? "it was interrupted" : "a call failed",
                     place.empty() ? "" : ", at " + place);
}

bool pauses_before_loops(lua_State* L) { return is_looked_at(L) && plan_of(L).at_once; }

void pause_if_interrupted(lua_State* L) {
  if (!session_of(L).prompt_in_charge || interrupt_signal() != SIGINT) return;
  LuaState::clear_interrupt(SIGINT);
  clear_interrupt(SIGINT);
  plan_of(L).at_once = true;
}

bool take_pause(lua_State* L, const std::shared_ptr<StepLoop>& loop, bool ended_body) {
  if (loop->passed) return false;
  PausePlan& plan = plan_of(L);
  Session& session = session_of(L);
  const int64_t step = session.run->run().step();
  const bool upcoming = session.run->upcoming(*loop).has_value();
  const bool looks = is_looked_at(L);
  // A loop of no steps is looked at all the same.
  if (!is_due(plan, ended_body, upcoming || (looks && !loop->begun), step)) return false;
  RecipeContext& context = recipe_context(L);
  // A step that was named and is yet to come stays named.
  plan = {.before_step = plan.before_step > step ? plan.before_step : -1};
  if (L != context.thread) {
    const std::string cause = fmt::format(
        "this loop runs in a coroutine of the recipe's own, which cannot be paused between bodies");
    XRUN_CHECK(!looks, "{}; write it in the recipe itself to look at it", cause);
    session.console->print(fmt::format("step {}: no prompt: {}", step, cause));
    return false;
  }
  context.pause = std::make_shared<LoopPause>(LoopPause{loop, session.run, step});
  return true;
}

}  // namespace xrun

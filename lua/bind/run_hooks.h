#pragma once
// The three hooks by which a prompt controls a recipe. Without them a recipe runs straight through.
// Ctrl-C suspends a recipe through LuaState::may_suspend and `suspending`: they belong to the
// state, not to a binding.

#include <lua.hpp>
#include <memory>
#include <optional>
#include <vector>

#include "core/train/objective.h"
#include "core/train/step.h"
#include "lua/state/class.h"

namespace xrun {

struct ErrorReport;
struct StepLoop;

// Called in the recipe's coroutines. The recipe sees what they throw.
class RunHooks {
 public:
  virtual ~RunHooks() = default;

  // Called before each body and at the end of a loop, in place of RunLoop::end_body. It calls
  // end_body itself, unless it pauses before the loop begins. Returns true to suspend the recipe
  // here; once the recipe is resumed, this is called again.
  virtual bool between_bodies(lua_State* L, const std::shared_ptr<StepLoop>& loop) = 0;

  // Called by adamw:step, whose arguments are on the stack of L. Returns the metrics of a step that
  // it ran instead, or nothing to let adamw:step update.
  virtual std::optional<Metrics> before_step(lua_State* L, const std::vector<StepTerm>& terms) = 0;

  // Called when adamw:step, run:evaluate or run:sample failed; `failure` is null if Ctrl-C stopped
  // it. Returns true to suspend the recipe at the call, which is made again when it is resumed.
  // Also called, with `ends_recipe`, before an error unwinds the recipe's frames; returns false.
  virtual bool on_failure(lua_State* L, std::shared_ptr<const ErrorReport> failure,
                          bool ends_recipe) = 0;
};

// Makes a method of a class ask RunHooks::on_failure when it fails. The method returns one value.
void make_retryable(lua_State* L, const ClassInfo* info, const char* method);

}  // namespace xrun

#pragma once
// What a paused recipe is paused at: its loop, between two bodies.

#include <cstdint>
#include <lua.hpp>
#include <memory>

namespace xrun {

class RunLoop;
struct StepLoop;

// The iterator of `run:steps` yields where the body before has ended and the next one has not
// begun; after the last body too. A loop of a recipe that is only looked at has not begun its phase
// at the first pause (StepLoop::begun): no weights are loaded yet.
struct LoopPause {
  std::shared_ptr<StepLoop> loop;
  std::shared_ptr<RunLoop> run;
  int64_t step = 0;  // bodies of the run done, the `step` that the next body gets
};

// When the next pause is asked for. Belongs to a state (LuaState::service).
struct PausePlan {
  bool at_once = false;  // at the next place where a recipe can pause
  int64_t at_step = -1;  // before the body of this step, or where the loops before it end; -1: none
};

// Whether the iterator should pause now, and notes where in the recipe's context. Called between
// two bodies. A pause that was asked for is used up. Throws Error if `L` is not the recipe's own
// coroutine, which alone can be suspended, and nothing but looking is wanted.
bool take_pause(lua_State* L, const std::shared_ptr<StepLoop>& loop, bool ended_body);

}  // namespace xrun

#pragma once
// What a paused recipe is paused at: its loop, between two bodies.

#include <cstdint>
#include <lua.hpp>
#include <memory>
#include <string>

namespace xrun {

struct ErrorReport;
class RunLoop;
struct StepLoop;

// The iterator of `run:steps` yields where the body before has ended and the next one has not
// begun; after the last body too. A loop of a recipe that is only looked at has not begun its phase
// at the first pause (StepLoop::begun): no weights are loaded yet.
struct LoopPause {
  std::shared_ptr<StepLoop> loop;
  std::shared_ptr<RunLoop> run;
  int64_t step = 0;  // bodies of the run done, the `step` that the next body gets
  // Inside a body, or beside the loop, instead: at a call that failed or was interrupted, and will
  // be tried again (retried.h).
  std::shared_ptr<const ErrorReport> failure = nullptr;

  // Whether it waits inside a body, and where: "where a call failed, at dpo.lua:17".
  bool in_body() const;
  std::string wait_text() const;
};

// When the next pause is asked for. Belongs to a state (LuaState::service).
struct PausePlan {
  bool at_once = false;      // at the next place where a recipe can pause
  int64_t before_step = -1;  // before the body of this step of the run; -1: none
  int64_t bodies = -1;       // when so many have ended; -1: none
};

// Whether a loop that has not begun is to pause before its report, plan and weights.
bool pauses_before_loops(lua_State* L);

// Makes a Ctrl-C under a prompt that is in charge ask for a pause here in place of ending the run.
void pause_if_interrupted(lua_State* L);

// Whether the iterator is to pause now, between two bodies; notes where in the recipe's context. A
// pause that was asked for is used up. Only the recipe's own coroutine can be suspended: throws
// Error in another one of a recipe that is looked at; a run says so and goes on.
bool take_pause(lua_State* L, const std::shared_ptr<StepLoop>& loop, bool ended_body);

}  // namespace xrun

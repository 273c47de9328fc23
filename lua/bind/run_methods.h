#pragma once
// The methods of a run that stand in files of their own.

#include <lua.hpp>

namespace xrun {

class RunLoop;

// Ends the loop that a `break` has left, if one has: Lua does not say so, but no `for` walks over
// it any more. Every method of a run that depends on the step calls it first.
void leave_broken_loop(RunLoop& run, lua_State* L);

// run:steps, what `for` walks over: pushes the iterator and its StepLoop.
int run_steps(RunLoop& run, lua_State* L);
// run:evaluate and run:sample: push Metrics. While a resume replays what is saved, those of the
// first time.
int run_evaluate(RunLoop& run, lua_State* L);
int run_sample(RunLoop& run, lua_State* L);

}  // namespace xrun

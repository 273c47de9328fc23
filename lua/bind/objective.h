#pragma once
// A Lua function as an objective of the step.

#include "core/train/objective.h"
#include "lua/state/lua_state.h"

namespace xrun {

// Wraps the function at index i, which errors call `what`: called with the micro-batch, it returns
// unreduced losses (a tensor in the batch's unit, or a table keyed by unit) and, if it likes, a
// table of metrics (tensors or numbers, taken in the order of their names). Tensors made inside are
// closed when it returns. The objective must not outlive L's state. What the function raises passes
// as LuaError; a wrong return is one at the function's last line with `return`.
Objective lua_objective(lua_State* L, int i, const char* what = "objective");

}  // namespace xrun

#pragma once
// The Lua states in which WorkerCalls runs copies of a recipe's function.

#include <lua.hpp>
#include <memory>
#include <string>
#include <vector>

#include "lua/state/lua_state.h"
#include "lua/state/worker_function.h"

namespace xrun {

// Opens a worker state (worker_function.h) without print and with the modules of lua/xrun. Any
// other name raises an error and marks the state (take_worker_refusal), so that a pcall in the
// function cannot hide it. The recipe's state must outlive it and decides when it may be
// interrupted.
std::unique_ptr<LuaState> open_call_worker(const LuaState& recipe);

// Loads a function into such a state. Its upvalues become the modules of these names, in order:
// "xrun", "xrun.rewards".
LuaRef load_copy(lua_State* L, const WorkerFunction& code, const std::vector<std::string>& modules);

}  // namespace xrun

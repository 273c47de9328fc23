#pragma once
// Reads views, batches and objectives from the arguments of bindings.

#include <string>

#include "core/train/batches/view.h"
#include "core/train/objective.h"
#include "lua/state/lua_state.h"

namespace xrun {

class Batch;

// Returns the view at index i, or the view of all sequences of the micro-batch there. Throws Error
// if the argument is neither.
View read_view(lua_State* L, int i);

// The micro-batch whose objective is running; null outside objectives.
MicroBatch* open_micro(lua_State* L);

// Returns the batch at argument i, to be scored whole. Throws Error in an objective if ranks share
// the batch: they run objectives for different micro-batches and would wait for each other.
Batch& whole_batch(lua_State* L, int i);

// Wraps the Lua function at index i; error messages call it `what`. The function is called with the
// micro-batch and returns unreduced losses (a tensor in the batch's unit, or a table keyed by unit)
// and optionally a table of metrics (tensors or numbers, read in the order of their names). Tensors
// made inside are closed when it returns. The objective must not outlive L's state. Errors that the
// function raises pass as LuaError; a wrong return value is reported at its line with `return`.
Objective lua_objective(lua_State* L, int i, const char* what = "objective");

// Throws the error of a backward pass that followed the objective called last. Its line is the one
// in the objective with the operator that the message names, else the `return`; the frames of L are
// the callers.
[[noreturn]] void throw_at_objective(lua_State* L, const std::string& message);

}  // namespace xrun

#pragma once
// run.state, a table of the recipe that the run saves.

#include <lua.hpp>

#include "lua/bind/run/run_loop.h"

namespace xrun {

// Makes the table from the saved state of the run, and sets the functions of `loop` that read it
// for a checkpoint and fill it again.
void tie_state(lua_State* L, RunLoop& loop);

}  // namespace xrun

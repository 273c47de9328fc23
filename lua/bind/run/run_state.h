#pragma once
// run.state, a table of the recipe that the run saves.

#include <lua.hpp>

#include "lua/bind/run/run_loop.h"

namespace xrun {

// Makes the table from the saved state of the run: read at a checkpoint, filled when a run is
// resumed.
void tie_state(lua_State* L, RunLoop& loop);

}  // namespace xrun

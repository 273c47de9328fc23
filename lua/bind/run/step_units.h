#pragma once
// The size of a step in the unit of its rows: pairs, sequences, prompts, groups or tokens.

#include <lua.hpp>

#include "lua/bind/data/data_config.h"

namespace xrun {

class Options;
struct StepLoop;

// Reads the size of a step, and its changes, from the options of run:steps into the plan of each
// set. Each set uses the count in the unit of its rows. Throws UsageError for a count that is
// missing or fits no set.
void read_all_units(lua_State* L, const Options& batch, const BatchSizes& sizes, StepLoop& loop);

}  // namespace xrun

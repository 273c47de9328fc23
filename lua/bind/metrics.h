#pragma once
// Values to log, in their order, as Lua sees them: what adamw:step and run:evaluate return.

#include <string>

#include "core/train/step.h"
#include "lua/state/lua_state.h"

namespace xrun {

struct MetricTable {
  Metrics values;  // full names: "train/loss", "valid/loss", "perf/step_s"
};

// Puts `prefix` before every name that has no '/' of its own.
MetricTable with_prefix(Metrics values, const std::string& prefix);

// Reads a MetricTable, or a plain table of numbers by name (in the order of the names; a name
// without '/' is put under "recipe/"). Throws Error.
Metrics read_metrics(lua_State* L, int i);

}  // namespace xrun

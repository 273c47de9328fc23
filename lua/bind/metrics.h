#pragma once
// Ordered values to log: the result of adamw:step and run:evaluate.

#include <string>

#include "core/train/step.h"
#include "lua/state/lua_state.h"

namespace xrun {

struct MetricTable {
  Metrics values;  // full names: "train/loss", "valid/loss", "perf/step_s"
};

// Puts `prefix` before every name without a '/' and before its values by source ("loss/chats").
MetricTable with_prefix(Metrics values, const std::string& prefix);

// Reads a MetricTable, or a plain table of numbers by name, in the order of the names; a name
// without '/' is put under "recipe/". Throws Error for any other value.
Metrics read_metrics(lua_State* L, int i);

}  // namespace xrun

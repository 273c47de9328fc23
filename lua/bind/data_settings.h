#pragma once
// The configuration's data settings as what a data set is opened with.

#include <lua.hpp>
#include <vector>

#include "core/base/json.h"
#include "core/data/packs/data_set.h"

namespace xrun {

// Returns the option, else the configuration's value, else null.
Json option_or_config(const Json& options, lua_State* L, const char* name);

// The sources of a `data` list. Throws Error that names the element and what is wrong with it.
std::vector<DataSource> read_data_sources(const Json& data);

// The `shuffle` setting: true, false, or { block, window }; null is true.
RowOrder read_order(const Json& shuffle);

// The `mixture.stages` setting, whose fields are checked.
std::vector<MixtureStage> read_stages(const Json& stages);

constexpr int64_t kNoLimit = -1;  // of max_length: asked for, beside 0 for "not given"

// Everything that `data` and options over the configuration's values say about a set.
DataOptions read_data_options(lua_State* L, RowKind kind, const Json& options, const Json& data);

}  // namespace xrun

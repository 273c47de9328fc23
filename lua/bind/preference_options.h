#pragma once
// The settings of xrun.preference: what the call says, else what the configuration says.

#include <lua.hpp>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/data/preference_set.h"

namespace xrun {

// An option of the call, or the configuration's key of the same name; null if neither has it.
Json option_or_config(const Json& options, lua_State* L, const char* name);

// Reads the list of sources. Throws Error that names the field as the configuration does
// ("data.1.weight: got -1, wanted a number above 0").
std::vector<PreferenceSource> read_preference_sources(const Json& data);

// The sources with every setting but what the model decides (max_length, vocabulary).
PreferenceOptions read_preference_options(lua_State* L, const Json& options, const Json& data);

}  // namespace xrun

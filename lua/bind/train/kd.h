#pragma once
// Records the projection file of xrun.kd.

#include <lua.hpp>
#include <string>

namespace xrun {

// Notes the file of `kd.projection` as an input of the run, which a resume compares. Does nothing
// for "auto". Throws UsageError if the file does not exist, Error if it cannot be read.
void note_projection(lua_State* L, const std::string& setting);

}  // namespace xrun

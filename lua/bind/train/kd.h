#pragma once
// The projection of xrun.kd.

#include <lua.hpp>
#include <string>

namespace xrun {

// Notes the file of `kd.projection` as an input of the run, which a resume compares; nothing for
// "auto". Throws Error if it cannot be read.
void note_projection(lua_State* L, const std::string& setting);

}  // namespace xrun

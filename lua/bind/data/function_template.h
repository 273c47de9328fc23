#pragma once
// The object `t` through which a Lua function writes a chat template.

#include <lua.hpp>

namespace xrun {

// Pushes `t`, the first argument of a template function.
void push_template_writer(lua_State* L);

}  // namespace xrun

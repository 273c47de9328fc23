#pragma once
// The writer of a chat template that is a Lua function.

#include <lua.hpp>

namespace xrun {

// Pushes the object `t`, the first argument of a template function.
void push_template_writer(lua_State* L);

}  // namespace xrun

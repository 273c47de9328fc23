#pragma once
// The local variables of the Lua functions that are running.

#include <lua.hpp>
#include <string_view>

#include "lua/state/lua_state.h"

namespace xrun {

// Calls each(name, index) for every local, innermost function first, with its value at a stack
// index, until it returns true; returns that. Leaves the stack as it was.
template <typename Each>
bool any_local(lua_State* L, const Each& each) {
  const StackGuard guard(L);
  lua_Debug frame{};
  for (int level = 0; lua_getstack(L, level, &frame) != 0; ++level) {
    int n = 1;
    while (const char* name = lua_getlocal(L, &frame, n++)) {
      if (each(std::string_view(name), lua_gettop(L))) return true;
      lua_pop(L, 1);
    }
  }
  return false;
}

}  // namespace xrun

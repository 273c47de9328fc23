#pragma once
// Metatables that Lua code can neither read nor replace.

#include "lua/state/args.h"

namespace xrun {

// Sets the table on top of the stack as the metatable of the one below, and pops it. getmetatable
// gives false, so no recipe can call a metamethod with arguments of its own choice.
inline void set_hidden_metatable(lua_State* L) {
  lua_pushboolean(L, 0);
  lua_setfield(L, -2, "__metatable");
  lua_setmetatable(L, -2);
}

// Throws Error unless argument 1 of a metamethod is a table: trusted code can get at metamethods by
// debug.getmetatable.
inline void check_metamethod_table(lua_State* L) {
  if (!lua_istable(L, 1)) throw_argument(L, 1, "table", "a table");
}

}  // namespace xrun

#pragma once
// Recursion through C ends as an error of Lua, not as a segmentation fault.
//
// LuaJIT bounds its own stack. But a coroutine, a string.gsub with a function, a comparator of
// table.sort and a binding that calls back take a piece of the C stack at each level and check
// nothing. So every call from Lua into C that may call Lua again first checks how much C stack is
// left.

#include <lua.hpp>

namespace xrun {

// Throws Error if the thread's C stack is nearly used up. enter_binding calls it for every binding.
void check_c_stack();

// Replaces coroutine.resume and wrap, string.gsub and format, table.sort, print, load, dofile and
// collectgarbage by functions that check first.
void guard_library(lua_State* L);

}  // namespace xrun

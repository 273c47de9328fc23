#pragma once
// The names that Lua code may use in states that do not belong to a trusted recipe.

#include <lua.hpp>
#include <string>

namespace xrun {

// The rights of the code in a state. A trusted recipe has all of Lua.
enum class LuaRights {
  kUntrusted,  // a recipe of someone else: no files, programs, bytecode or addresses
  kWorker,     // a function over rows: the same, and nothing whose result differs from run to run
};

// Removes every global, library function and loadable module that the rights do not list, and
// replaces those that could exceed the rights. In an untrusted recipe, reading a removed name
// raises an error that says how to allow it. Call it on a new state, before any code of a recipe
// runs.
void limit_globals(lua_State* L, LuaRights rights);

// The message about a name that limit_globals removed; "" for any other name.
std::string removed_global_text(const std::string& name);

// Pushes string.dump, which limited states do not offer to their code.
void push_dump(lua_State* L);
// Saves string.dump for push_dump. Call it on a new state, before limit_globals.
void keep_dump(lua_State* L);

}  // namespace xrun

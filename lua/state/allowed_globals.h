#pragma once
// The names that Lua code finds in states that do not belong to a trusted recipe.

#include <lua.hpp>
#include <string>

namespace xrun {

// The rights of the code in a state. A trusted recipe's has all of Lua.
enum class LuaRights {
  kUntrusted,  // a recipe of someone else: no files, programs, bytecode or addresses
  kWorker,     // a function over rows: besides, nothing whose result differs from run to run
};

// Removes every global, library function and loadable module that is not on the list of the rights,
// and replaces those that could leave them. Reading a removed name of an untrusted recipe raises an
// error with the way to allow it. To be called on a new state, before any code of a recipe runs.
void limit_globals(lua_State* L, LuaRights rights);

// The message about a name that limit_globals removed; "" for any other name.
std::string removed_global_text(const std::string& name);

// Pushes string.dump, which limited states do not offer to their code.
void push_dump(lua_State* L);
void keep_dump(lua_State* L);  // in a new state, before limit_globals

}  // namespace xrun

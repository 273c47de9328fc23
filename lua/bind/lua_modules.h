#pragma once
// The modules of lua/xrun, built into the binary.

#include <string>
#include <string_view>
#include <vector>

#include "lua/state/lua_state.h"

namespace xrun {

struct LuaModuleText {
  std::string_view name;  // "sorted_pairs"
  std::string_view text;
};

// All modules, sorted by name.
const std::vector<LuaModuleText>& lua_module_texts();

// Pushes the value of module xrun.NAME, run at its first use. Throws Error with did-you-mean.
void push_lua_module(lua_State* L, const std::string& name);

}  // namespace xrun

#pragma once
// The modules of lua/xrun, built into the program: xrun.NAME, or require "xrun.NAME".

#include <span>
#include <string_view>

namespace xrun {

class LuaState;

struct BuiltinModule {
  std::string_view name;  // "rewards"
  std::string_view text;
};

std::span<const BuiltinModule> builtin_modules();

// Runs the modules: each becomes a field of `xrun`, and require "xrun.NAME" returns it.
void open_builtin_modules(LuaState& state);

}  // namespace xrun

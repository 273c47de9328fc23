#pragma once
// The modules of lua/xrun, which are part of the program: xrun.NAME, also by require "xrun.NAME".

#include <span>
#include <string_view>

namespace xrun {

struct BuiltinModule {
  std::string_view name;  // "rewards"
  std::string_view text;
};

std::span<const BuiltinModule> builtin_modules();

}  // namespace xrun

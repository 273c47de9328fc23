#pragma once
// The program's name in commands that it prints.

#include <cstdlib>
#include <filesystem>
#include <string>

#include "core/base/strings.h"

namespace xrun {

// Returns "./xrun" as the wrapper was called, or "xrun". `elsewhere`: spelled so that it works in
// another folder too.
inline std::string called_as(bool elsewhere = false) {
  const char* name = std::getenv("XRUN_CALLED_AS");
  if (name == nullptr || *name == '\0') return "xrun";
  const std::string text = name;
  const bool path = text.find('/') != std::string::npos;
  return shell_word(elsewhere && path ? std::filesystem::absolute(text).lexically_normal().string()
                                      : text);
}

}  // namespace xrun

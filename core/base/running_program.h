#pragma once
// The running program: its name in commands that it prints, and its file.

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "core/base/strings.h"

namespace xrun {

// Returns the program's name as the user typed it: "./xrun" if the wrapper was called so, else
// "xrun". With `elsewhere` it is spelled so that it works in another folder too.
inline std::string called_as(bool elsewhere = false) {
  const char* name = std::getenv("XRUN_CALLED_AS");
  if (name == nullptr || *name == '\0') return "xrun";
  const std::string text = name;
  if (!elsewhere || text.find('/') == std::string::npos) return shell_word(text);
  std::error_code code;  // the current folder may have been removed
  const std::filesystem::path whole = std::filesystem::absolute(text, code);
  return shell_word(code ? text : whole.lexically_normal().string());
}

// An environment variable that xrun launch sets for its ranks: "launch -n 4".
constexpr const char* kLaunchedAs = "XRUN_LAUNCHED_AS";

// Returns the beginning of a command that runs a recipe as this process does, up to the recipe:
// "xrun", or "xrun launch -n 4" in a rank of xrun launch.
inline std::string run_called_as() {
  const char* launched = std::getenv(kLaunchedAs);
  return called_as() +
         (launched == nullptr || *launched == '\0' ? "" : std::string(" ") + launched);
}

// Returns the command that started this process, spelled for a shell: "xrun dpo.xrb --set
// beta=0.2".
std::string command_line();

// Returns the file of the running program; its libraries and recipes are beside it. Throws
// Error without /proc.
std::filesystem::path program_path();

}  // namespace xrun

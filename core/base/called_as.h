#pragma once
// The running program: its name in commands that it prints, and its file.

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

// Set by xrun launch for its ranks: "launch -n 4".
constexpr const char* kLaunchedAs = "XRUN_LAUNCHED_AS";

// Returns what stands before the recipe in a command that runs it like this process: "xrun", in a
// rank of xrun launch "xrun launch -n 4".
inline std::string run_called_as() {
  const char* launched = std::getenv(kLaunchedAs);
  return called_as() +
         (launched == nullptr || *launched == '\0' ? "" : std::string(" ") + launched);
}

// Returns the command that started this process, spelled for a shell: "xrun dpo.xrb --set
// beta=0.2".
std::string command_line();

// Returns the file of the running program; its libraries and recipes are beside it.
inline std::filesystem::path program_path() {
  return std::filesystem::read_symlink("/proc/self/exe");
}

}  // namespace xrun

// The arguments come from /proc, so that no caller has to pass main's argv down.

#include "core/base/running_program.h"

#include <fstream>

#include "core/base/error.h"

namespace xrun {

std::string command_line() {
  // Not by read_file, which opens only what a recipe may read. Each word ends with a zero byte.
  std::ifstream words("/proc/self/cmdline");
  std::string text = run_called_as(), word;
  std::getline(words, word, '\0');  // the program's name
  while (std::getline(words, word, '\0')) text += " " + shell_word(word);
  return text;
}

std::filesystem::path program_path() {
  constexpr const char* kSelf = "/proc/self/exe";
  std::error_code code;
  std::filesystem::path path = std::filesystem::read_symlink(kSelf, code);
  XRUN_CHECK(!code, "{}: cannot be read: {}; xrun finds its own files by it: mount /proc", kSelf,
             code.message());
  return path;
}

}  // namespace xrun

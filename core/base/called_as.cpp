// The words come from the kernel, so that no caller has to hand main's arguments down.

#include "core/base/called_as.h"

#include <fstream>
#include <iterator>

namespace xrun {

std::string command_line() {
  // Not by read_file, which opens only what a recipe may read.
  std::ifstream file("/proc/self/cmdline");
  const std::string words{std::istreambuf_iterator<char>(file), {}};  // each ends with a zero byte
  std::string text = run_called_as();
  for (size_t at = words.find('\0'); at + 1 < words.size();) {
    const size_t end = words.find('\0', at + 1);
    text += " " + shell_word(words.substr(at + 1, end - at - 1));
    at = end;
  }
  return text;
}

}  // namespace xrun

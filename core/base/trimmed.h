#pragma once
// Text without the blanks around it.

#include <string_view>

namespace xrun {

constexpr std::string_view kBlanks = " \t\r\n";

// A part of `text`, which must outlive it: without blanks, tabs and line ends before and behind.
inline std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

}  // namespace xrun

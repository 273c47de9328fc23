#pragma once
// Counting in pages.

#include <string>

namespace xrun {

// Returns how often a text contains a part.
inline size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace xrun

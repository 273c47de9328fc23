#pragma once
// The line-by-line difference of two strings.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace xrun {

enum class LineSide { kBoth, kFirst, kSecond };

struct DiffLine {
  LineSide side;
  int64_t line;  // 1-based, of the first text; of the second one for kSecond
  std::string text;
  bool operator==(const DiffLine&) const = default;
};

// Returns every line of both strings in order; the common ones are the longest common subsequence.
// If the strings differ over more than some thousand lines, everything between their common
// beginning and end counts as different.
std::vector<DiffLine> diff_lines(std::string_view first, std::string_view second);

// Returns the differing lines, each with up to `around` common ones on both sides: "- 12  text",
// "+ 12  text", "  13  text", and "..." for lines left out between them. Empty if nothing differs.
std::vector<std::string> diff_text(const std::vector<DiffLine>& lines, size_t around = 1);

}  // namespace xrun

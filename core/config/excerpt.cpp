// Columns are bytes. Tabs are copied into the line of carets, so that the carets stay under the
// word at any tab width.

#include "core/config/excerpt.h"

#include <fmt/core.h>

#include <algorithm>

namespace xrun {

std::string_view line_of(std::string_view text, int line) {
  if (line < 1) return "";
  for (int at = 1; at < line; ++at) {
    const size_t newline = text.find('\n');
    if (newline == std::string_view::npos) return "";
    text.remove_prefix(newline + 1);
  }
  text = text.substr(0, text.find('\n'));
  if (text.ends_with('\r')) text.remove_suffix(1);
  return text;
}

std::string excerpt_text(std::string_view source_line, int line, size_t begin, size_t end) {
  if (source_line.find_first_not_of(" \t") == std::string_view::npos) return "";
  std::string below;
  for (size_t i = 0; i < std::min(begin, source_line.size()); ++i) {
    below += source_line[i] == '\t' ? '\t' : ' ';
  }
  below.append(std::max(end, begin + 1) - begin, '^');
  return fmt::format("\n  {:>4} | {}\n       | {}", line, source_line, below);
}

std::string excerpt_of_word(std::string_view text, int line, std::string_view word) {
  const std::string_view source_line = line_of(text, line);
  const size_t at = word.empty() ? std::string_view::npos : source_line.find(word);
  if (at != std::string_view::npos) return excerpt_text(source_line, line, at, at + word.size());
  const size_t first = source_line.find_first_not_of(" \t");
  if (first == std::string_view::npos) return "";
  return excerpt_text(source_line, line, first, source_line.find_last_not_of(" \t") + 1);
}

std::string excerpt_of_byte(std::string_view text, size_t at) {
  const std::string_view before = text.substr(0, at);
  const int line = static_cast<int>(std::count(before.begin(), before.end(), '\n')) + 1;
  const size_t begin = before.rfind('\n') + 1;  // npos + 1 is 0
  return excerpt_text(line_of(text, line), line, at - begin, at - begin + 1);
}

}  // namespace xrun

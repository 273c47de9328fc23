#include "core/console/word_list.h"

#include <algorithm>

#include "core/console/text_width.h"

namespace xrun {

namespace {

constexpr int kGap = 2;
constexpr int kNarrowest = 30;  // columns of meaning beside a name

}  // namespace

std::vector<std::string> broken_lines(const std::string& text, int width) {
  std::vector<std::string> lines(1);
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    if (!lines.back().empty() && text_width(lines.back()) + 1 + text_width(word) > width) {
      lines.emplace_back();
    }
    lines.back() += (lines.back().empty() ? "" : " ") + word;
    at = end + 1;
  }
  return lines;
}

std::string word_list(const std::vector<std::pair<std::string, std::string>>& words, int width) {
  int widest = 0;
  for (const auto& [name, meaning] : words) widest = std::max(widest, text_width(name));
  const bool beside = widest + kGap + kNarrowest <= width;
  const int indent = beside ? widest + kGap : kGap;
  std::string out;
  for (const auto& [name, meaning] : words) {
    out += beside ? pad_to_width(name, indent) : name + "\n";
    bool first = beside;
    for (const std::string& line : broken_lines(meaning, std::max(1, width - indent))) {
      out += (first ? "" : std::string(static_cast<size_t>(indent), ' ')) + line + "\n";
      first = false;
    }
  }
  return out;
}

}  // namespace xrun

#include "core/console/terminal/word_list.h"

#include <algorithm>

#include "core/console/terminal/text_width.h"

namespace xrun {

namespace {

constexpr int kGap = 2;
constexpr int kNarrowest = 30;  // columns of meaning beside a name

// Bytes of a beginning of a word that is wider than `columns`: a path ends behind a folder.
size_t piece_size(std::string_view word, int columns) {
  const size_t most = std::max(fitting_size(word, columns), text_character(word, 0).size);
  const size_t slash = word.substr(0, most).rfind('/');
  return slash != word.npos && 2 * slash > most ? slash + 1 : most;
}

}  // namespace

std::vector<std::string> broken_lines(std::string_view text, int width) {
  width = std::max(1, width);
  std::vector<std::string> lines(1);
  int used = 0;        // columns of the last line
  bool begun = false;  // it has a word
  const auto next_line = [&] {
    lines.back().erase(lines.back().find_last_not_of(' ') + 1);
    lines.emplace_back();
    used = 0;
    begun = false;
  };
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    std::string_view word = text.substr(at, end - at);
    int columns = text_width(word);
    if (begun && used + 1 + columns > width) next_line();
    if (begun) {
      lines.back() += ' ';
      ++used;
    }
    while (used + columns > width && !word.empty()) {  // wider than a line
      const size_t size = piece_size(word, width - used);
      lines.back() += word.substr(0, size);
      columns -= text_width(word.substr(0, size));
      word.remove_prefix(size);
      if (!word.empty()) next_line();
    }
    lines.back() += word;
    used += columns;
    begun = true;
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

// Columns count code points; wide characters may shift the caret, never the texts.

#include "core/text/chat/text_difference.h"

#include <fmt/core.h>

#include <algorithm>

#include "core/base/utf8.h"

namespace xrun {

namespace {

constexpr size_t kBefore = 30;  // approximate bytes of context
constexpr size_t kAfter = 50;

// Moves an offset back to the start of its character.
size_t begin_of_point(std::string_view text, size_t at) {
  while (at > 0 && at < text.size() && is_continuation(text[at])) --at;
  return at;
}

size_t count_points(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return !is_continuation(c); }));
}

}  // namespace

std::string visible_blanks(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = read_utf8(text, at);
    at += point.size;
    if (point.value == ' ')
      out += "␣";
    else if (point.value == '\n')
      out += "⏎";
    else if (point.value == '\t')
      out += "→";
    else if (point.value < 0x20)
      append_utf8(out, 0x2400 + point.value);
    else
      append_utf8(out, point.value);
  }
  return out;
}

std::string text_difference(std::string_view label_a, std::string_view a, std::string_view label_b,
                            std::string_view b) {
  const auto difference = std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first;
  // Two characters may share their first bytes: the difference begins where the character does.
  const size_t at = begin_of_point(a, static_cast<size_t>(difference - a.begin()));
  if (at == a.size() && at == b.size()) return "both texts are equal";
  const size_t begin = begin_of_point(a, at > kBefore ? at - kBefore : 0);
  const std::string_view dots = begin > 0 ? "…" : "";
  // The texts agree up to `at`, so one copy serves both lines.
  const std::string before = visible_blanks(a.substr(begin, at - begin));
  const size_t width = std::max(label_a.size(), label_b.size());
  std::string out;
  for (const auto& [label, text] : {std::pair(label_a, a), std::pair(label_b, b)}) {
    const size_t end = begin_of_point(text, std::min(text.size(), at + kAfter));
    const std::string after = at < text.size() ? visible_blanks(text.substr(at, end - at)) : "";
    out += fmt::format("  {:<{}}  {}{}{}{}\n", label, width, dots, before, after,
                       end < text.size()   ? "…"
                       : at >= text.size() ? "(ends here)"
                                           : "");
  }
  const size_t column = count_points(dots) + count_points(before);
  out += fmt::format("  {:<{}}  {}^", "", width, std::string(column, ' '));
  return out;
}

}  // namespace xrun

#include "core/text/tokenizer/text_border.h"

#include "core/text/unicode/utf8_cursor.h"

namespace xrun {

namespace {

bool is_letter(uint32_t c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= 0x0410 && c <= 0x044F) ||
         (c >= 0xAC00 && c <= 0xD7A3);
}

bool is_line_letter(uint32_t c) { return is_letter(c) || (c >= 0x4E00 && c <= 0x9FA5); }

// What may stand before a line feed: no space, and nothing that a normal form makes one of.
bool ends_line(uint32_t c) {
  constexpr uint32_t kIdeographicStop = 0x3002;
  return (c > ' ' && c < 0x7F) || c == kIdeographicStop || is_line_letter(c);
}

bool is_space_border(std::string_view text, size_t at) {
  return text[at] == ' ' && at + 1 < text.size() && is_letter(utf8_character(text, at + 1)) &&
         is_letter(utf8_character(text, utf8_before(text, at)));
}

bool is_line_border(std::string_view text, size_t at) {
  return at > 1 && text[at - 1] == '\n' && !is_continuation(text[at]) &&
         is_line_letter(utf8_character(text, at)) &&
         ends_line(utf8_character(text, utf8_before(text, at - 1)));
}

}  // namespace

size_t find_border(std::string_view text, size_t from, size_t most, BorderKinds kinds) {
  const auto is_border = [&](size_t at) {
    return (kinds.space && is_space_border(text, at)) || (kinds.line && is_line_border(text, at));
  };
  if (!kinds.space && !kinds.line) return text.size();
  for (size_t at = most; at > from; --at) {
    if (is_border(at)) return at;
  }
  size_t at = most + 1;
  while (at < text.size() && !is_border(at)) ++at;
  return at < text.size() ? at : text.size();
}

}  // namespace xrun

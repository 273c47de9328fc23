// The search scans back from `most`, then forward; each candidate is decided by its neighbours
// alone.

#include "core/text/tokenizer/safe_split.h"

#include "core/text/unicode/utf8_cursor.h"

namespace xrun {

namespace {

// ASCII, Cyrillic U+0410 to U+044F, Hangul syllables.
bool is_letter(uint32_t c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= 0x0410 && c <= 0x044F) ||
         (c >= 0xAC00 && c <= 0xD7A3);
}

// Letters as above, and the common Han ideographs.
bool is_line_letter(uint32_t c) { return is_letter(c) || (c >= 0x4E00 && c <= 0x9FA5); }

// A character allowed before a line feed: not a space, and none that a normal form turns into one.
bool ends_line(uint32_t c) {
  constexpr uint32_t kIdeographicStop = 0x3002;
  return (c > ' ' && c < 0x7F) || c == kIdeographicStop || is_line_letter(c);
}

// `at` is the space: word splitters take it with the word after it.
bool is_space_split(std::string_view text, size_t at) {
  return text[at] == ' ' && at + 1 < text.size() && is_letter(utf8_character(text, at + 1)) &&
         is_letter(utf8_character(text, utf8_before(text, at)));
}

bool is_line_split(std::string_view text, size_t at) {
  return at > 1 && text[at - 1] == '\n' && !is_continuation(text[at]) &&
         is_line_letter(utf8_character(text, at)) &&
         ends_line(utf8_character(text, utf8_before(text, at - 1)));
}

}  // namespace

size_t find_safe_split(std::string_view text, size_t from, size_t most, SplitKinds kinds) {
  const auto is_split = [&](size_t at) {
    return (kinds.space && is_space_split(text, at)) || (kinds.line && is_line_split(text, at));
  };
  if (!kinds.space && !kinds.line) return text.size();
  // The last split before the limit, else the first one after it.
  for (size_t at = most; at > from; --at) {
    if (is_split(at)) return at;
  }
  size_t at = most + 1;
  while (at < text.size() && !is_split(at)) ++at;
  return at < text.size() ? at : text.size();
}

}  // namespace xrun

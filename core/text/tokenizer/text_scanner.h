#pragma once
// Character tests and runs for the hand-written splitters.

#include <array>
#include <bit>
#include <cstring>
#include <string_view>

#include "core/text/unicode/unicode.h"
#include "core/text/unicode/utf8_cursor.h"

namespace xrun {

constexpr std::array<CharKind, 128> make_ascii_kinds() {
  std::array<CharKind, 128> kinds{};
  for (int c = 0; c < 128; ++c) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool space = c == ' ' || (c >= 9 && c <= 13);
    kinds[c] = letter                 ? CharKind::kLetter
               : c >= '0' && c <= '9' ? CharKind::kNumber
               : space                ? CharKind::kSpace
                                      : CharKind::kOther;
  }
  return kinds;
}
inline constexpr std::array<CharKind, 128> kAsciiKinds = make_ascii_kinds();

// Reads a text of valid UTF-8. Every position is a byte offset.
class TextScanner {
 public:
  explicit TextScanner(std::string_view text) : text_(text) {}

  size_t size() const { return text_.size(); }
  uint32_t character(size_t at) const { return utf8_character(text_, at); }
  char byte(size_t at) const { return at < text_.size() ? text_[at] : '\0'; }
  // Requires at < size().
  CharKind kind(size_t at) const {
    const auto c = static_cast<unsigned char>(text_[at]);
    return c < 128 ? kAsciiKinds[c] : char_kind(utf8_character(text_, at));
  }
  bool is_kind(size_t at, CharKind wanted) const { return at < size() && kind(at) == wanted; }
  size_t next(size_t at) const { return at + utf8_size(text_[at]); }
  // Returns the end of a run of one kind, of at most `limit` characters.
  size_t run(size_t at, CharKind wanted, size_t limit = SIZE_MAX) const {
    if (wanted == CharKind::kLetter && limit == SIZE_MAX) at = ascii_letters(at);
    for (; limit > 0 && is_kind(at, wanted); --limit) at = next(at);
    return at;
  }
  // Returns the end of the ASCII letters from `at` on. Reads eight bytes at a time: most words are
  // shorter.
  size_t ascii_letters(size_t at) const {
    constexpr uint64_t kOnes = 0x0101010101010101, kHigh = 0x80 * kOnes;
    for (uint64_t bytes; at + sizeof bytes <= size(); at += sizeof bytes) {
      std::memcpy(&bytes, text_.data() + at, sizeof bytes);
      // Without its high bit no byte carries into the next one.
      const uint64_t lower = (bytes & ~kHigh) | 0x20 * kOnes;
      const uint64_t from_a = lower + (0x80 - 'a') * kOnes;
      const uint64_t beyond_z = lower + (0x80 - 'z' - 1) * kOnes;
      const uint64_t others = ~(from_a & ~beyond_z & ~bytes) & kHigh;
      if (others != 0) return at + size_t(std::countr_zero(others)) / 8;
    }
    while (is_kind(at, CharKind::kLetter) && static_cast<unsigned char>(text_[at]) < 128) ++at;
    return at;
  }
  // Requires at < size().
  Category category_at(size_t at) const { return category(utf8_character(text_, at)); }
  bool is_mark(size_t at) const {
    const Category c = category_at(at);
    return c == Category::kMc || c == Category::kMe || c == Category::kMn;
  }
  bool is_line_end(size_t at) const { return byte(at) == '\n' || byte(at) == '\r'; }
  // \s+(?!\S)|\s+ at a space: the run, less its last character if a word follows.
  size_t spaces(size_t at) const {
    const size_t end = run(at, CharKind::kSpace);
    if (end == size()) return end;
    const size_t last = utf8_before(text_, end);
    return last > at ? last : end;
  }

 private:
  std::string_view text_;
};

// Returns the bytes of a contraction ('s 't 'm 'd 're 've 'll) at an apostrophe, or 0.
inline size_t contraction(const TextScanner& in, size_t at, bool any_case) {
  const auto folded = [&](size_t i) -> char {
    const char c = in.byte(i);
    return any_case && c >= 'A' && c <= 'Z' ? char(c + 32) : c;
  };
  const char a = folded(at + 1);
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
  const char b = folded(at + 2);
  if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) return 3;
  // U+017F, the long s, folds to s.
  if (any_case && a == '\xC5' && b == '\xBF') return 3;
  return 0;
}

// Returns the end of the blanks at a blank: \s*[\r\n]+|\s+(?!\S)|\s+.
inline size_t blanks_end(const TextScanner& in, size_t at) {
  size_t line_end = 0;  // after the last \r or \n of the run of spaces
  for (size_t i = at; in.is_kind(i, CharKind::kSpace); i = in.next(i)) {
    if (in.is_line_end(i)) line_end = i + 1;
  }
  return line_end > 0 ? line_end : in.spaces(at);
}

}  // namespace xrun

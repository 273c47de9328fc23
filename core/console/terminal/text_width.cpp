// A character is a code point and the zero-width code points after it. Joined emoji count once, as
// terminals that join them draw them; variation selectors do not change the width.

#include "core/console/terminal/text_width.h"

#include <algorithm>
#include <cstdint>

#include "core/base/utf8.h"

namespace xrun {

namespace {

constexpr uint32_t kJoiner = 0x200D;

int columns_of(uint32_t code_point) {
  if (code_point < 0x80) return 1;
  // Only the first range that does not end below the code point can contain it.
  const WidthRange* end = kWidthRanges + kWidthRangeCount;
  const WidthRange* range = std::upper_bound(
      kWidthRanges, end, code_point,
      [](uint32_t value, const WidthRange& candidate) { return value <= candidate.last; });
  return range != end && code_point >= range->first ? range->columns : 1;
}

// True for the blocks that contain emoji; their other characters never follow a joiner.
bool is_symbol(uint32_t c) { return (c >= 0x2190 && c < 0x2C00) || (c >= 0x1F000 && c < 0x20000); }
bool is_skin_tone(uint32_t c) { return c >= 0x1F3FB && c <= 0x1F3FF; }
bool is_regional(uint32_t c) { return c >= 0x1F1E6 && c <= 0x1F1FF; }

// Returns the bytes of the escape sequence at text[at], ESC [ parameters letter; 0 if there is
// none.
size_t escape_size(std::string_view text, size_t at) {
  if (text[at] != '\x1b' || at + 1 >= text.size() || text[at + 1] != '[') return 0;
  size_t end = at + 2;
  // ECMA-48: parameter and intermediate bytes are blank to ?, the final byte is @ to ~.
  while (end < text.size() && text[end] >= ' ' && text[end] <= '?') ++end;
  return end < text.size() && text[end] >= '@' && text[end] <= '~' ? end + 1 - at : 0;
}

}  // namespace

TextCharacter text_character(std::string_view text, size_t at) {
  if (const size_t escape = escape_size(text, at)) return {escape, 0};
  const CodePoint first = read_utf8(text, at);
  TextCharacter character{first.size, first.valid ? columns_of(first.value) : 1};
  // Nothing joins a control.
  if (!first.valid || first.value < 0x20) return character;
  uint32_t last = first.value;
  for (size_t next = at + first.size; next < text.size();) {
    if (static_cast<unsigned char>(text[next]) < 0x80) break;
    const CodePoint point = read_utf8(text, next);
    // An emoji after a joiner and a skin tone after an emoji are drawn in the same cell.
    const bool joined = (last == kJoiner && is_symbol(point.value)) ||
                        (is_skin_tone(point.value) && is_symbol(first.value));
    // Two regional indicators are one flag.
    const bool flag = is_regional(first.value) && is_regional(point.value) && last == first.value &&
                      character.size == first.size;
    if (!point.valid || !(joined || flag || columns_of(point.value) == 0)) break;
    if (flag) character.columns += 1;
    character.size += point.size;
    next += point.size;
    last = point.value;
  }
  return character;
}

int text_width(std::string_view text) {
  int width = 0;
  for (size_t at = 0; at < text.size();) {
    const TextCharacter character = text_character(text, at);
    width += character.columns;
    at += character.size;
  }
  return width;
}

size_t fitting_size(std::string_view text, int columns) {
  size_t at = 0;
  while (at < text.size()) {
    const TextCharacter character = text_character(text, at);
    if (character.columns > columns) break;
    columns -= character.columns;
    at += character.size;
  }
  return at;
}

std::string cut_to_width(std::string_view text, int columns) {
  if (fitting_size(text, columns) == text.size()) return std::string(text);
  if (columns <= 0) return "";
  // - 1 leaves a column for the ellipsis.
  std::string out(text.substr(0, fitting_size(text, columns - 1)));
  // A colour whose reset was cut off would run on.
  const size_t escape = out.rfind("\x1b[");
  const bool painted = escape != std::string::npos && out.compare(escape, 4, "\x1b[0m") != 0;
  out += "…";
  if (painted) out += "\x1b[0m";
  return out;
}

std::string pad_to_width(std::string_view text, int columns) {
  std::string out = cut_to_width(text, columns);
  out.append(static_cast<size_t>(std::max(0, columns - text_width(out))), ' ');
  return out;
}

}  // namespace xrun

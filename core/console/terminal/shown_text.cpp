// The only filter between untrusted text and a terminal or a page.

#include "core/console/terminal/shown_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "core/base/utf8.h"
#include "core/console/terminal/text_width.h"

namespace xrun {

namespace {

struct UnseenRange {
  uint32_t first, last;
};

// Unicode's Default_Ignorable_Code_Point without marks, other characters that turn the direction
// (UAX #9), controls, separators, and the non-characters of the basic plane. is_shown computes the
// non-characters at the end of each plane.
constexpr std::array<UnseenRange, 19> kUnseen = {{{0x7F, 0x9F},
                                                  {0xAD, 0xAD},
                                                  {0x34F, 0x34F},
                                                  {0x61C, 0x61C},
                                                  {0x115F, 0x1160},
                                                  {0x180B, 0x180F},
                                                  {0x200B, 0x200B},
                                                  {0x200E, 0x200F},
                                                  {0x2028, 0x202E},
                                                  {0x2060, 0x206F},
                                                  {0x3164, 0x3164},
                                                  {0xFDD0, 0xFDEF},
                                                  {0xFEFF, 0xFEFF},
                                                  {0xFFA0, 0xFFA0},
                                                  {0xFFF0, 0xFFFB},
                                                  {0x1BCA0, 0x1BCA3},
                                                  {0x1D173, 0x1D17A},
                                                  {0xE0000, 0xE00FF},
                                                  {0xE01F0, 0xE0FFF}}};

bool is_blank(uint32_t code_point) {
  return code_point == '\n' || code_point == '\t' || code_point == ' ';
}

std::string_view blank(char value, Blanks blanks) {
  if (value == '\n') return blanks == Blanks::kUnchanged ? "\n" : "⏎";
  if (value == '\t') return blanks == Blanks::kUnchanged ? "\t" : "→";
  return blanks == Blanks::kMarked ? "·" : " ";
}

}  // namespace

bool is_shown(uint32_t code_point) {
  // xxFFFE and xxFFFF, the non-characters at the end of each plane.
  if (code_point < 0x20 || (code_point & 0xFFFE) == 0xFFFE) return false;
  return std::none_of(kUnseen.begin(), kUnseen.end(), [&](const UnseenRange& range) {
    return code_point >= range.first && code_point <= range.last;
  });
}

std::string shown_text(std::string_view bytes, Blanks blanks) {
  std::string out;
  out.reserve(bytes.size());
  for (size_t at = 0; at < bytes.size();) {
    const CodePoint point = read_utf8(bytes, at);
    const std::string_view character = bytes.substr(at, point.size);
    // A combining mark here would join the text printed before, or a blank.
    const bool first = at == 0 || bytes[at - 1] == '\n' || bytes[at - 1] == '\t';
    at += point.size;
    if (!point.valid || (point.value < 0x80 && !is_shown(point.value) && !is_blank(point.value))) {
      out += fmt::format("<{:02X}>", static_cast<unsigned char>(character[0]));
    } else if (is_blank(point.value)) {
      out += blank(character[0], blanks);
    } else if (!is_shown(point.value) || (first && text_width(character) == 0)) {
      out += fmt::format("<U+{:04X}>", point.value);
    } else {
      out += character;
    }
  }
  return out;
}

}  // namespace xrun

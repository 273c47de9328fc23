#pragma once
// Tokens of a segment as lines of a given width, for pack_text.cpp.

#include <string>
#include <vector>

#include "core/console/inspect/inspected_pack.h"
#include "core/console/terminal/console.h"

namespace xrun {

// Layout of token lines.
struct TokenLineStyle {
  int width = 80;  // columns of a whole line, gutter included; at least 1
  ColorDepth colors = ColorDepth::kNone;
  int position_width = 0;  // columns of the position before a line; 0: none
  int role_width = 0;      // columns of the role after it; 0: roles have their own lines
  bool scores = false;     // log-probs under the tokens
};

// One line of a terminal, at most style.width columns.
struct TextLine {
  std::string text;  // with its colours
  int columns = 0;
};

// Returns a style whose position and role columns fit these segments in `width` columns.
TokenLineStyle token_line_style(const std::vector<const InspectedSegment*>& segments, int width,
                                ColorDepth colors);

// Returns lines of tokens [begin, end), broken at each turn, line break and full width; a token
// wider than a line is split between characters. Without colours a line of marks follows: the
// weight's mark under each trained token, its first column "|", "_" under special tokens, "^" under
// the template's own text. Scores follow as lines of numbers.
std::vector<TextLine> token_lines(const InspectedSegment& segment, size_t begin, size_t end,
                                  const TokenLineStyle& style);

}  // namespace xrun

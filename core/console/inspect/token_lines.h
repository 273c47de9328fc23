#pragma once
// Lays out the tokens of a segment as lines of a given width.

#include <string>
#include <vector>

#include "core/console/inspect/inspected_pack.h"
#include "core/console/terminal/console.h"

namespace xrun {

struct TokenLineStyle {
  int width = 80;  // columns of a whole line, gutter included; at least 1
  ColorDepth colors = ColorDepth::kNone;
  int position_width = 0;  // columns of the position before a line; 0: no position
  int role_width = 0;      // columns of the role after it; 0: roles have their own lines
  bool scores = false;     // shows log-probs below the tokens
};

// One line of a terminal, at most style.width columns.
struct TextLine {
  std::string text;  // with its colours
  int columns = 0;
};

// Returns a style whose position and role columns fit these segments in `width` columns.
TokenLineStyle token_line_style(const std::vector<const InspectedSegment*>& segments, int width,
                                ColorDepth colors);

// Returns lines of tokens [begin, end), broken at turns, line breaks and the full width; a token
// wider than a line is split between characters. Without colours a line of marks follows: the mark
// of the weight below each trained token, with "|" in its first column, "_" below special tokens,
// "^" below the template's own text. Lines of log-probs come last.
std::vector<TextLine> token_lines(const InspectedSegment& segment, size_t begin, size_t end,
                                  const TokenLineStyle& style);

}  // namespace xrun

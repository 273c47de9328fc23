#pragma once
// Tokens of a segment as lines of a given width: the middle of the picture that pack_text draws.

#include <string>
#include <vector>

#include "core/console/terminal/console.h"
#include "core/console/inspect/inspected_pack.h"

namespace xrun {

// Where and how tokens are written.
struct TokenLineStyle {
  int width = 80;  // columns of a whole line, gutter included; at least 1
  ColorDepth colors = ColorDepth::kNone;
  int position_width = 0;  // columns of the position before a line; 0: none
  int role_width = 0;      // columns of the role behind it; 0: roles stand on lines of their own
  bool scores = false;     // log-probs under the tokens
};

// One line of a terminal, at most style.width columns.
struct TextLine {
  std::string text;  // with its colours
  int columns = 0;
};

// The widths of positions and roles that fit these segments in `width` columns.
TokenLineStyle token_line_style(const std::vector<const InspectedSegment*>& segments, int width,
                                ColorDepth colors);

// Lines of tokens [begin, end): a new one at each turn, behind each line break and where the width
// is full; a token wider than a line is split between characters. Without colours a line of marks
// follows each line that has any: a weight's mark under each trained token, its first column "|",
// "_" under special tokens, "^" under the template's own text. Scores follow as lines of numbers.
std::vector<TextLine> token_lines(const InspectedSegment& segment, size_t begin, size_t end,
                                  const TokenLineStyle& style);

}  // namespace xrun

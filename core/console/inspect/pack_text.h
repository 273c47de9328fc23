#pragma once
// Inspected packs as text for a terminal, a file or a pipe.

#include <string>

#include "core/console/terminal/console.h"
#include "core/console/inspect/inspected_pack.h"

namespace xrun {

struct PackTextStyle {
  ColorDepth colors = ColorDepth::kNone;
  int width = 80;  // no line is wider; at least 1
};

// From this width on a pair's sides stand side by side, below it one under the other.
constexpr int kSideBySideWidth = 100;

// The head of a step, a block a segment or pair, and the footer: trained tokens, fill, what was
// dropped and cut, and what the colours or marks mean. Every line ends with a newline. All foreign
// text in it is shown, never obeyed.
std::string step_text(const InspectedStep& step, const PackTextStyle& style);

}  // namespace xrun

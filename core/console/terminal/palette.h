#pragma once
// The colour scale of loss weights: masked dim, trained bright, fractions between, negative weights
// in another hue. Terminals, plain text and pages use the same steps.

#include <string>
#include <string_view>

#include "core/console/terminal/console.h"

namespace xrun {

// Steps of the scale. Most trained tokens have weight 1.
enum class WeightStep {
  kMasked,
  kQuarter,
  kHalf,
  kBelowOne,
  kOne,
  kMore,
  kNegative,
  kVeryNegative
};
constexpr int kWeightSteps = 8;

// 0 is masked; up to 1/4, up to 1/2, below 1, 1, above 1; negative above and from -1 down. NaN
// counts as very negative, so that it is noticed.
WeightStep weight_step(double weight);

// Appearance of a step.
struct WeightColor {
  std::string_view name;  // "masked", "up to 1/4", ...; a page's class is "w" and the number
  char mark;              // below a token if there are no colours; ' ' for masked
  const char* sgr16[2];   // parameters of ESC [ ... m; two alternating shades
  const char* sgr256[2];
  const char* light;  // background on a light page, text #1a1a1a
  const char* dark;   // background on a dark page, text #f2f2f2
};
const WeightColor& weight_color(WeightStep step);

// Further attributes of a token.
struct TokenStyle {
  bool odd = false;      // takes the second shade, to separate neighbours
  bool special = false;  // underlined
  bool own = false;      // the template's own text: italics
};

// Paints a token of the step; ColorDepth::kNone returns the text unchanged.
std::string paint_weight(std::string_view text, WeightStep step, const TokenStyle& style,
                         ColorDepth colors);

}  // namespace xrun

#pragma once
// The colour scale of loss weights, for terminals, plain text and pages: masked tokens are dim,
// trained ones bright, fractions lie between, and negative weights have another hue.

#include <string>
#include <string_view>

#include "core/console/terminal/console.h"

namespace xrun {

// Steps of the scale. kOne is a step of its own because most trained tokens have weight 1.
enum class WeightStep {
  kMasked,       // 0
  kQuarter,      // up to 1/4
  kHalf,         // up to 1/2
  kBelowOne,     // below 1
  kOne,          // 1
  kMore,         // above 1
  kNegative,     // below 0, above -1
  kVeryNegative  // -1 and below, and NaN, so that it is noticed
};
constexpr int kWeightSteps = 8;

WeightStep weight_step(double weight);

// Appearance of a step.
struct WeightColor {
  std::string_view name;  // "masked", "up to 1/4", ...
  char mark;              // below a token if there are no colours; ' ' for masked
  const char* sgr16[2];   // parameters of ESC [ ... m, in two shades
  const char* sgr256[2];
  const char* light;  // background on a light page, text #1a1a1a
  const char* dark;   // background on a dark page, text #f2f2f2
};
const WeightColor& weight_color(WeightStep step);

// Further attributes of a token.
struct TokenStyle {
  bool odd = false;      // takes the second shade; neighbours alternate
  bool special = false;  // is underlined
  bool own = false;      // is the template's own text, in italics
};

// Returns a token's text in the colour of its step; ColorDepth::kNone returns it unchanged.
std::string paint_weight(std::string_view text, WeightStep step, const TokenStyle& style,
                         ColorDepth colors);

}  // namespace xrun

#pragma once
// The scale of loss weights as colours: masked dim, trained bright, fractions between, negative
// weights in another hue. The same steps for terminals, plain text and pages.

#include <string>
#include <string_view>

#include "core/console/terminal/console.h"

namespace xrun {

// Steps of the scale. A weight of 1 is what most trained tokens have.
enum class WeightStep { kMasked, kQuarter, kHalf, kPart, kOne, kMore, kNegative, kVeryNegative };
constexpr int kWeightSteps = 8;

// 0 is masked; up to 1/4, up to 1/2, below 1, 1, above 1; negative above and from -1 down. NaN
// counts as very negative: it must be seen.
WeightStep weight_step(double weight);

// How a step looks.
struct WeightColor {
  std::string_view name;  // "masked", "up to 1/4", ...; a page's class is "w" and the number
  char mark;              // stands under a token where there are no colours; ' ' for masked
  const char* sgr16[2];   // parameters of ESC [ ... m; two shades, for neighbours in turn
  const char* sgr256[2];
  const char* light;  // background on a light page, text #1a1a1a
  const char* dark;   // background on a dark page, text #f2f2f2
};
const WeightColor& weight_color(WeightStep step);

// What else a token's look says.
struct TokenLook {
  bool odd = false;      // takes the second shade, so that neighbours are told apart
  bool special = false;  // underlined
  bool own = false;      // the template's own text: italics
};

// Paints the text of a token of the step; ColorDepth::kNone returns it as it is.
std::string paint_weight(std::string_view text, WeightStep step, const TokenLook& look,
                         ColorDepth colors);

}  // namespace xrun

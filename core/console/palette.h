#pragma once
// The scale of loss weights as colours: masked dim, trained bright, fractions between, negative
// weights in another hue. The same steps for terminals, plain text and pages.

#include <string>
#include <string_view>

#include "core/console/console.h"

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

// Paints text for a token of the step; `odd` takes the second shade, so that neighbours are told
// apart. Special tokens are underlined. ColorDepth::kNone returns text as it is.
std::string paint_weight(std::string_view text, WeightStep step, bool odd, bool special,
                         ColorDepth colors);

}  // namespace xrun

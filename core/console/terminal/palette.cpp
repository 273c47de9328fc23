// Terminal shades are backgrounds with their own text colour, so that they are readable on light
// and on dark terminals; masked text has the terminal's background. On a page, text and background
// have a contrast of at least 7 (WCAG AAA), which palette_test.cpp computes.

#include "core/console/terminal/palette.h"

#include <array>

namespace xrun {

namespace {

constexpr std::array<WeightColor, kWeightSteps> kColors = {{
    {"masked", ' ', {"90", "2"}, {"38;5;245", "38;5;242"}, "transparent", "transparent"},
    {"up to 1/4", '.', {"30;46", "30;106"}, {"30;48;5;152", "30;48;5;116"}, "#d6eef5", "#123c48"},
    {"up to 1/2", ':', {"30;46", "30;106"}, {"30;48;5;80", "30;48;5;79"}, "#b2e3ea", "#0d4a55"},
    {"below 1", '+', {"30;46", "30;106"}, {"30;48;5;43", "30;48;5;42"}, "#9be3cf", "#0a5346"},
    {"1", '=', {"30;42", "30;102"}, {"30;48;5;114", "30;48;5;77"}, "#a6e3a1", "#1d5223"},
    {"above 1", '#', {"30;43", "30;103"}, {"30;48;5;220", "30;48;5;214"}, "#ffd866", "#5e4700"},
    {"negative", '-', {"30;45", "30;105"}, {"30;48;5;217", "30;48;5;211"}, "#ffc9d0", "#5c2530"},
    {"-1 and below",
     '!',
     {"97;41", "30;101"},
     {"30;48;5;203", "30;48;5;209"},
     "#ff9e94",
     "#7a1d14"},
}};

}  // namespace

WeightStep weight_step(double weight) {
  if (weight == 0) return WeightStep::kMasked;
  // Negated, so that it holds for NaN.
  if (!(weight > -1)) return WeightStep::kVeryNegative;
  if (weight < 0) return WeightStep::kNegative;
  if (weight <= 0.25) return WeightStep::kQuarter;
  if (weight <= 0.5) return WeightStep::kHalf;
  if (weight < 1) return WeightStep::kBelowOne;
  return weight == 1 ? WeightStep::kOne : WeightStep::kMore;
}

const WeightColor& weight_color(WeightStep step) { return kColors[static_cast<size_t>(step)]; }

std::string paint_weight(std::string_view text, WeightStep step, const TokenStyle& style,
                         ColorDepth colors) {
  if (colors == ColorDepth::kNone || text.empty()) return std::string(text);
  const WeightColor& color = weight_color(step);
  // 3 is italic, 4 underlined.
  std::string out = "\x1b[";
  if (style.own) out += "3;";
  if (style.special) out += "4;";
  out += (colors == ColorDepth::k16 ? color.sgr16 : color.sgr256)[style.odd ? 1 : 0];
  out += 'm';
  out += text;
  return out + "\x1b[0m";
}

}  // namespace xrun

// The steps of the loss-weight scale differ in every rendering and contrast with their text.

#include "core/console/terminal/palette.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

namespace xrun::palette_test {
namespace {

// Relative luminance of "#rrggbb" (WCAG 2.1).
double luminance(std::string_view color) {
  const double share[] = {0.2126, 0.7152, 0.0722};
  double sum = 0;
  for (size_t i = 0; i < 3; ++i) {
    const double value = std::stoi(std::string(color.substr(1 + 2 * i, 2)), nullptr, 16) / 255.0;
    sum += share[i] * (value <= 0.03928 ? value / 12.92 : std::pow((value + 0.055) / 1.055, 2.4));
  }
  return sum;
}

double contrast(std::string_view a, std::string_view b) {
  const double x = luminance(a), y = luminance(b);
  return (std::max(x, y) + 0.05) / (std::min(x, y) + 0.05);
}

TEST(WeightStep, FollowsTheScale) {
  EXPECT_EQ(weight_step(0), WeightStep::kMasked);
  EXPECT_EQ(weight_step(0.25), WeightStep::kQuarter);
  EXPECT_EQ(weight_step(0.5), WeightStep::kHalf);
  EXPECT_EQ(weight_step(0.9), WeightStep::kBelowOne);
  EXPECT_EQ(weight_step(1), WeightStep::kOne);
  EXPECT_EQ(weight_step(2), WeightStep::kMore);
  EXPECT_EQ(weight_step(-0.5), WeightStep::kNegative);
  EXPECT_EQ(weight_step(-1), WeightStep::kVeryNegative);
  EXPECT_EQ(weight_step(std::numeric_limits<double>::quiet_NaN()), WeightStep::kVeryNegative);
}

TEST(Palette, EveryPageColourContrastsWithItsText) {
  for (int i = 1; i < kWeightSteps; ++i) {
    const WeightColor& color = weight_color(static_cast<WeightStep>(i));
    EXPECT_GE(contrast(color.light, "#1a1a1a"), 7) << color.name;
    EXPECT_GE(contrast(color.dark, "#f2f2f2"), 7) << color.name;
  }
}

TEST(Palette, StepsDifferInEveryRendering) {
  for (int i = 0; i < kWeightSteps; ++i) {
    for (int k = 0; k < i; ++k) {
      const WeightColor& a = weight_color(static_cast<WeightStep>(i));
      const WeightColor& b = weight_color(static_cast<WeightStep>(k));
      EXPECT_NE(a.mark, b.mark);
      EXPECT_STRNE(a.sgr256[0], b.sgr256[0]);
      EXPECT_NE(std::string(a.light), b.light);
    }
  }
}

TEST(Palette, NeighboursAreDistinctAndSpecialTokensUnderlined) {
  EXPECT_EQ(paint_weight("a", WeightStep::kOne, {}, ColorDepth::k16), "\x1b[30;42ma\x1b[0m");
  EXPECT_EQ(paint_weight("a", WeightStep::kOne, {true, true, true}, ColorDepth::k256),
            "\x1b[3;4;30;48;5;77ma\x1b[0m");
  EXPECT_EQ(paint_weight("a", WeightStep::kOne, {.special = true}, ColorDepth::kNone), "a");
}

}  // namespace
}  // namespace xrun::palette_test

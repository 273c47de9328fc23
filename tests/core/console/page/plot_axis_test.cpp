// An axis has round ticks inside its span and places every value between 0 and 1.

#include "core/console/page/plot_axis.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/base/error.h"
#include "tests/error_of.h"

namespace xrun::plot_axis_test {
namespace {

std::vector<std::string> texts(const PlotAxis& axis) {
  std::vector<std::string> out;
  for (const Tick& tick : axis.ticks) out.push_back(tick.text);
  return out;
}

using Texts = std::vector<std::string>;

TEST(PlotAxis, TicksAreRoundNumbersInside) {
  EXPECT_EQ(texts(plot_axis(0, 1, 5)), (Texts{"0", "0.2", "0.4", "0.6", "0.8", "1.0"}));
  EXPECT_EQ(texts(plot_axis(0.61, 0.693, 4)), (Texts{"0.62", "0.64", "0.66", "0.68"}))
      << "a step of 0.05 would leave one";
  EXPECT_EQ(texts(plot_axis(0, 99999, 5)), (Texts{"0", "20,000", "40,000", "60,000", "80,000"}));
  EXPECT_EQ(texts(plot_axis(-649, -206, 4)), (Texts{"-600", "-500", "-400", "-300"}));
  EXPECT_EQ(texts(plot_axis(0, 1e-5, 2)), (Texts{"0", "5e-06", "1e-05"}));
}

TEST(PlotAxis, NeighbouringTicksOfLargeValuesReadDifferently) {
  EXPECT_EQ(texts(plot_axis(2e7, 2e7 + 5, 5)),
            (Texts{"20000000", "20000001", "20000002", "20000003", "20000004", "20000005"}));
  EXPECT_EQ(texts(plot_axis(0, 2e7, 2)), (Texts{"0", "1e+07", "2e+07"}));
}

TEST(PlotAxis, PlacesItsEndsAtZeroAndOne) {
  const PlotAxis axis = plot_axis(-2, 6, 5);
  EXPECT_EQ(axis.position(-2), 0);
  EXPECT_EQ(axis.position(6), 1);
  EXPECT_EQ(axis.position(2), 0.5);
  const PlotAxis log = plot_axis(0.01, 100, 5, true);
  EXPECT_DOUBLE_EQ(log.position(1), 0.5);
  EXPECT_EQ(texts(log), (Texts{"0.01", "0.1", "1", "10", "100"}));
}

TEST(PlotAxis, AFewDecadesHaveTicksBetween) {
  EXPECT_EQ(texts(plot_axis(1, 60, 5, true)), (Texts{"1", "2", "5", "10", "20", "50"}));
}

TEST(PlotAxis, AnEmptySpanIsWidened) {
  const PlotAxis axis = plot_axis(5, 5, 5);
  EXPECT_LT(axis.low, 5);
  EXPECT_GT(axis.high, 5);
  EXPECT_FALSE(plot_axis(0, 0, 5).ticks.empty());
}

TEST(PlotAxis, TerminatesForHugeAndForNeighbouringValues) {
  const double most = std::numeric_limits<double>::max();
  for (const auto& axis : {plot_axis(-most, most, 5), plot_axis(1e17, 1e17 + 64, 5),
                           plot_axis(0, 5e-324, 5), plot_axis(most, most, 5)}) {
    EXPECT_LE(axis.ticks.size(), 100u);
    EXPECT_TRUE(std::isfinite(axis.position(axis.low)));
    EXPECT_TRUE(std::isfinite(axis.position(axis.high)));
  }
}

TEST(PlotAxis, RefusesAnInvertedOrNonFiniteSpan) {
  EXPECT_EQ(message_of<Error>([] { plot_axis(1, 0, 5); }),
            "an axis from 1 to 0: wanted finite ends, the lower first");
  EXPECT_TRUE(throws<Error>("wanted finite ends", [] { plot_axis(0, NAN, 5); }));
  EXPECT_EQ(message_of<Error>([] { plot_axis(0, 1, 5, true); }),
            "a logarithmic axis from 0: wanted positive values");
}

TEST(PlotAxis, ChoosesLogOverSeveralDecades) {
  EXPECT_TRUE(wants_log(0.1, 900));
  EXPECT_FALSE(wants_log(0.1, 1));
  EXPECT_FALSE(wants_log(0, 900));
}

TEST(PlotAxis, NumbersHaveFourDigits) {
  EXPECT_EQ(axis_number(0.693147), "0.6931");
  EXPECT_EQ(axis_number(16993.478), "16,993");
  EXPECT_EQ(axis_number(7), "7");
  EXPECT_EQ(axis_number(1.23456e-5), "1.235e-05");
  EXPECT_EQ(axis_number(NAN), "none");
}

}  // namespace
}  // namespace xrun::plot_axis_test

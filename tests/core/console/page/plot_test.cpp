// Plots keep spikes, gaps and non-finite values visible at any number of points.

#include "core/console/page/plot.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/console/page/plot_points.h"
#include "tests/core/console/count_of.h"

namespace xrun::plot_test {
namespace {

PlotLine falling(int count) {
  PlotLine line{"loss", {}, 0, false, "run-0"};
  for (int i = 0; i < count; ++i) line.points.push_back({static_cast<double>(i), 1.0 / (i + 1)});
  return line;
}

TEST(Plot, DrawsAPathFromTheUpperLeftToTheLowerRight) {
  Plot plot{"t", {{"a", {{0, 1}, {1, 0.5}, {2, 0}}, 0, false, "run-0"}}};
  const std::string figure = plot_figure(plot);
  EXPECT_NE(figure.find("d=\"M0 0l800 380 800 380\""), std::string::npos) << figure;
  EXPECT_NE(figure.find("class=\"line run-0 sparse\""), std::string::npos);
  EXPECT_NE(figure.find("data-x=\"0 2\" data-y=\"0 1\""), std::string::npos);
}

TEST(Plot, DrawsALongLineRawAndInFourSmoothings) {
  const std::string figure = plot_figure({"t", {falling(300)}});
  EXPECT_EQ(count_of(figure, "class=\"raw\""), 1u);
  EXPECT_EQ(count_of(figure, "class=\"smooth s"), 4u);
  EXPECT_EQ(figure.find("sparse"), std::string::npos);
}

TEST(Plot, ManyStepsTakeTenKilobytesALine) {
  PlotLine line{"loss", {}, 0, false, "run-0"};
  for (int i = 0; i < 100000; ++i) {
    line.points.push_back({static_cast<double>(i), std::sin(i * 12.9898) * std::cos(i * 78.233)});
  }
  EXPECT_LT(plot_figure({"t", {line}}).size(), 14000u);
}

TEST(Plot, AValueThatIsNotFiniteBreaksTheLineAndIsMarked) {
  Plot plot{"t", {{"a", {{0, 1}, {1, 0.5}, {2, NAN}, {3, 1}, {4, 0}}, 0, false, "run-0"}}};
  const std::string figure = plot_figure(plot);
  EXPECT_NE(figure.find("d=\"M0 0l400 380M1200 0l400 760\""), std::string::npos) << figure;
  EXPECT_NE(figure.find("class=\"broken\" d=\"M800 732v28\""), std::string::npos) << figure;
}

TEST(Plot, ALegendOfManyLinesNamesTheSolidOnes) {
  Plot plot{"t", {}};
  for (int run = 0; run < 6; ++run) {
    PlotLine line = falling(3);
    line.name = "run " + std::to_string(run);
    plot.lines.push_back(line);
    line.name += " valid";
    line.dashed = true;
    plot.lines.push_back(line);
  }
  const std::string figure = plot_figure(plot);
  EXPECT_NE(figure.find(">run 5</span>"), std::string::npos) << figure;
  EXPECT_EQ(figure.find(">run 5 valid</span>"), std::string::npos);
  for (const bool dashed : {false, true}) {
    for (PlotLine& line : plot.lines) line.dashed = dashed;
    EXPECT_NE(plot_figure(plot).find(" and 4 more</span>"), std::string::npos) << dashed;
  }
}

TEST(Plot, OnlyALineAloneIsNamedByTheTitle) {
  const auto named = [](const std::string& figure) {
    return count_of(figure, ">reward</span>") + count_of(figure, ">train</span>");
  };
  PlotLine own = falling(3), other = falling(3);
  own.name = "reward";
  other.name = "train";
  EXPECT_EQ(named(plot_figure({"reward", {own}})), 0u);
  EXPECT_EQ(named(plot_figure({"reward", {own, other}})), 2u);
  EXPECT_EQ(named(histogram_figure("reward", {{"reward", {1, 2}, 0, ""}})), 0u);
  EXPECT_EQ(named(histogram_figure("reward", {{"reward", {1, 2}}, {"train", {1, 2}}})), 2u);
}

TEST(Plot, UsesALabelledLogarithmicAxisOverManyDecades) {
  Plot plot{"norm", {{"a", {{0, 0.1}, {1, 900}}, 0, false, "run-0"}}};
  EXPECT_NE(plot_figure(plot).find("norm (log scale)"), std::string::npos);
}

TEST(Plot, ReportsThatNoValueIsFinite) {
  EXPECT_NE(plot_figure({"t", {{"a", {{0, NAN}}, 0, false, ""}}}).find("no finite value"),
            std::string::npos);
  EXPECT_NE(plot_figure({"t", {}}).find("no finite value"), std::string::npos);
  EXPECT_NE(histogram_figure("t", {{"a", {NAN}, 0, ""}}).find("no finite value"),
            std::string::npos);
}

TEST(Plot, ForeignNamesAreEscaped) {
  Plot plot{"<script>", {{"\"><img>", {{0, 1}, {1, 2}}, 0, false, "run-0"}}};
  for (const std::string& figure :
       {plot_figure(plot), histogram_figure("<script>", {{"\"><img>", {1, 2}, 0, ""}})}) {
    EXPECT_EQ(figure.find("<script>"), std::string::npos);
    EXPECT_EQ(figure.find("<img>"), std::string::npos);
  }
}

TEST(Plot, ATinyLastValueDoesNotMakeAScheduleLogarithmic) {
  PlotLine line{"lr", {}, 0, false, ""};
  for (int i = 0; i <= 100; ++i)
    line.points.push_back({static_cast<double>(i), 1.0 + 1e-9 - i * 0.01});
  EXPECT_EQ(plot_figure({"lr", {line}}).find("log scale"), std::string::npos);
}

TEST(Plot, AHistogramShowsSharesOfEachLine) {
  const std::string figure =
      histogram_figure("t", {{"a", {0, 0, 0, 1}, 0, "run-0"}, {"b", {0, 1, NAN}, 1, "run-1"}});
  EXPECT_NE(figure.find("data-y=\"0 0.75\""), std::string::npos) << figure;
  EXPECT_NE(figure.find("d=\"M0 760l0-760 400 0 0 760 400 0 400 0 0-253 400 0 0 253\""),
            std::string::npos)
      << figure;
}

TEST(Plot, ASpikeDoesNotSquashAHistogram) {
  HistogramLine line{"norm", {}, 0, ""};
  for (int i = 0; i < 10000; ++i) line.values.push_back(i % 100);
  line.values.push_back(1e9);
  EXPECT_NE(histogram_figure("t", {line}).find("data-x=\"0 99\""), std::string::npos);
}

std::vector<PlotPoint> wave(size_t count) {
  std::vector<PlotPoint> out;
  for (size_t i = 0; i < count; ++i) {
    out.push_back({static_cast<double>(i), std::sin(static_cast<double>(i) / 500)});
  }
  return out;
}

TEST(PlotPoints, ASpikeOfOneStepStays) {
  auto points = wave(100000);
  points[54321].y = 900;
  points[54322].y = -900;
  const auto reduced = reduce_points(points, 100);
  EXPECT_LE(reduced.size(), 200u);
  EXPECT_NE(std::find(reduced.begin(), reduced.end(), points[54321]), reduced.end());
  EXPECT_NE(std::find(reduced.begin(), reduced.end(), points[54322]), reduced.end());
  EXPECT_TRUE(std::is_sorted(reduced.begin(), reduced.end(),
                             [](const auto& a, const auto& b) { return a.x < b.x; }));
}

TEST(PlotPoints, AGapStays) {
  auto points = wave(10000);
  points[777].y = NAN;
  const auto reduced = reduce_points(points, 100);
  EXPECT_EQ(std::count_if(reduced.begin(), reduced.end(),
                          [](const PlotPoint& point) { return std::isnan(point.y); }),
            1);
}

TEST(PlotPoints, FewPointsAreUnchanged) {
  const auto points = wave(20);
  EXPECT_EQ(reduce_points(points, 10), points);
  EXPECT_TRUE(reduce_points({}, 10).empty());
  EXPECT_EQ(reduce_points(std::vector<PlotPoint>(50, PlotPoint{3, 1}), 10).size(), 1u)
      << "all at one step";
}

TEST(PlotPoints, SmoothingLeavesAConstantUnchanged) {
  std::vector<PlotPoint> points;
  for (int i = 0; i < 1000; ++i) points.push_back({static_cast<double>(i), 0.25});
  for (const PlotPoint& point : smooth_points(points, 50, 100)) {
    EXPECT_NEAR(point.y, 0.25, 1e-12) << "from the first point on";
  }
}

TEST(PlotPoints, SmoothingIsTheExponentialMean) {
  const std::vector<PlotPoint> points = {{0, 1}, {1, NAN}, {2, 4}};
  const auto smoothed = smooth_points(points, 2, 10);
  ASSERT_EQ(smoothed.size(), 2u);
  EXPECT_DOUBLE_EQ(smoothed[0].y, 1);
  EXPECT_DOUBLE_EQ(smoothed[1].y, (0.25 * 1 + 0.5 * 4) / 0.75);
  EXPECT_EQ(smooth_points(points, 1, 10)[1].y, 4);
}

TEST(PlotPoints, SmoothingKeepsTheLastPoint) {
  const auto smoothed = smooth_points(wave(100000), 1000, 200);
  EXPECT_LE(smoothed.size(), 200u);
  EXPECT_EQ(smoothed.back().x, 99999);
}

}  // namespace
}  // namespace xrun::plot_test

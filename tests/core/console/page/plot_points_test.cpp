#include "core/console/page/plot_points.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace xrun::plot_points_test {
namespace {

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

TEST(PlotPoints, FewComeBackAsTheyAre) {
  const auto points = wave(20);
  EXPECT_EQ(reduce_points(points, 10), points);
  EXPECT_TRUE(reduce_points({}, 10).empty());
  EXPECT_EQ(reduce_points(std::vector<PlotPoint>(50, PlotPoint{3, 1}), 10).size(), 1u)
      << "all at one step";
}

TEST(PlotPoints, AConstantStaysWhatItIsWhenSmoothed) {
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
}  // namespace xrun::plot_points_test

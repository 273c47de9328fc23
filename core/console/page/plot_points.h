#pragma once
// Reduces the points of a curve to those that a plot can show, and smooths them.

#include <span>
#include <vector>

namespace xrun {

struct PlotPoint {
  double x;
  double y;  // NaN: the value was not finite; the line has a gap there
  bool operator==(const PlotPoint&) const = default;
};

// Returns at most 2 points and one gap for each of `columns` equal slices of the x axis: the least
// and the greatest of the slice, in their order, so that no spike is lost. Up to 2 * `columns`
// points are returned unchanged. x must grow.
std::vector<PlotPoint> reduce_points(std::span<const PlotPoint> points, int columns);

// Returns an exponential mean of the points over a window of `window` points, bias-corrected at the
// beginning (Kingma & Ba 2015, section 3): at most `columns` points, the last of each slice. Gaps
// are skipped. A window of 1 or less does not smooth.
std::vector<PlotPoint> smooth_points(std::span<const PlotPoint> points, double window, int columns);

}  // namespace xrun

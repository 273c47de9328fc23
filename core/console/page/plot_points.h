#pragma once
// What a curve of any length becomes on a few hundred pixels: spikes stay, gaps stay.

#include <span>
#include <vector>

namespace xrun {

// y NaN: something was there and was not finite. A line is broken at it.
struct PlotPoint {
  double x, y;
  bool operator==(const PlotPoint&) const = default;
};

// Returns at most 2 points (and one gap) for each of `columns` equal slices of the x axis: the
// least and the greatest of the slice, in their order in time, so that no spike is lost. Few
// points come back as they are. x must grow.
std::vector<PlotPoint> reduce_points(std::span<const PlotPoint> points, int columns);

// Returns the exponential mean of the points over the last `window` of them, without the pull
// towards zero at the beginning (Kingma & Ba 2015, section 3), at most `columns` points of it: the
// last of each slice. Gaps are passed over. A window of 1 or less is no smoothing.
std::vector<PlotPoint> smooth_points(std::span<const PlotPoint> points, double window, int columns);

}  // namespace xrun

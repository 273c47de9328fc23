// reduce_points keeps the lowest and the highest point of each slice of the x axis, plus one gap if
// a value there was not finite; smooth_points keeps the last point.

#include "core/console/page/plot_points.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>

namespace xrun {

namespace {

// Equal slices of the x axis from the first point to the last.
class Slices {
 public:
  Slices(std::span<const PlotPoint> points, int columns)
      : low_(points.front().x), span_(points.back().x - low_), columns_(std::max(columns, 1)) {}
  int of(double x) const {
    if (!(span_ > 0)) return 0;  // all points are at one x
    return std::clamp(static_cast<int>((x - low_) / span_ * columns_), 0, columns_ - 1);
  }

 private:
  double low_, span_;
  int columns_;
};

// Appends the extremes of a slice, and one gap if it has any.
void append_slice(std::span<const PlotPoint> slice, std::vector<PlotPoint>& out) {
  const PlotPoint* least = nullptr;
  const PlotPoint* greatest = nullptr;
  const PlotPoint* gap = nullptr;
  for (const PlotPoint& point : slice) {
    if (std::isnan(point.y)) {
      gap = &point;
      continue;
    }
    if (least == nullptr || point.y < least->y) least = &point;
    if (greatest == nullptr || point.y > greatest->y) greatest = &point;
  }
  std::vector<const PlotPoint*> found;
  for (const PlotPoint* candidate : {least, greatest, gap}) {
    if (candidate != nullptr && std::find(found.begin(), found.end(), candidate) == found.end()) {
      found.push_back(candidate);
    }
  }
  std::sort(found.begin(), found.end());  // by their order in the slice
  for (const PlotPoint* point : found) out.push_back(*point);
}

}  // namespace

std::vector<PlotPoint> reduce_points(std::span<const PlotPoint> points, int columns) {
  const size_t few = 2 * static_cast<size_t>(std::max(columns, 1));
  if (points.size() <= few) return {points.begin(), points.end()};
  const Slices slices(points, columns);
  std::vector<PlotPoint> out;
  for (size_t begin = 0; begin < points.size();) {
    size_t end = begin + 1;
    while (end < points.size() && slices.of(points[end].x) == slices.of(points[begin].x)) ++end;
    append_slice(points.subspan(begin, end - begin), out);
    begin = end;
  }
  return out;
}

std::vector<PlotPoint> smooth_points(std::span<const PlotPoint> points, double window,
                                     int columns) {
  std::vector<PlotPoint> out;
  if (points.empty()) return out;
  const double keep = window > 1 ? 1 - 1 / window : 0;  // the decay; 0 averages nothing
  const Slices slices(points, columns);
  double mean = 0;
  double weight = 0;  // corrects the bias of a mean that starts at 0, as Adam does
  std::optional<PlotPoint> last;
  for (const PlotPoint& point : points) {
    if (std::isnan(point.y)) continue;
    mean = keep * mean + (1 - keep) * point.y;
    weight = keep * weight + (1 - keep);
    // Appends the last point of a slice when the next slice begins.
    if (last && slices.of(last->x) != slices.of(point.x)) out.push_back(*last);
    last = {point.x, mean / weight};
  }
  if (last) out.push_back(*last);
  return out;
}

}  // namespace xrun

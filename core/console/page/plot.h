#pragma once
// Curves and histograms as inline SVG, coloured by the variables of html_page.h.
//
// Every line of a plot has its `group` as a class, so that a page can hide a run, and is drawn
// raw (class "raw") and smoothed ("smooth s1" .. "smooth s4"); <main data-smooth="N">
// chooses. A line of few points (class "sparse") has marks and is never smoothed. The figure's
// data-x and data-y hold the axes ("low high", "low high log") for a script that reads values off.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace xrun {

// y NaN: the value was not finite; the line has a gap there.
struct PlotPoint {
  double x, y;
  bool operator==(const PlotPoint&) const = default;
};

// Returns at most 2 points (and one gap) for each of `columns` equal slices of the x axis: the
// least and the greatest of the slice, in order of time, so that no spike is lost. Few points are
// returned unchanged. x must grow.
std::vector<PlotPoint> reduce_points(std::span<const PlotPoint> points, int columns);

// Returns the exponential mean of the points over the last `window` of them, bias-corrected
// at the beginning (Kingma & Ba 2015, section 3), at most `columns` points: the last of
// each slice. Gaps are skipped. A window of 1 or less does not smooth.
std::vector<PlotPoint> smooth_points(std::span<const PlotPoint> points, double window, int columns);

// Windows of smoothing 1 to 4, as shares of the line's points.
constexpr double kSmoothShares[] = {0.005, 0.02, 0.05, 0.15};

struct PlotLine {
  std::string name;               // of the legend, plain text
  std::vector<PlotPoint> points;  // x grows
  size_t color = 0;               // series_color
  bool dashed = false;
  std::string group = {};  // letters, digits, "-"
};

struct Plot {
  std::string title;  // plain text
  std::vector<PlotLine> lines;
  int columns = 480;  // slices that a line is reduced to
};

// Returns a <figure>: title, legend (up to 8 lines), axes, lines, and marks below for values that
// were not finite. The y axis is logarithmic if all values are positive and most lie decades below
// the greatest. A plot without a finite value says so.
std::string plot_figure(const Plot& plot);

struct HistogramLine {
  std::string name;
  std::vector<double> values;  // NaN and infinities are left out
  size_t color = 0;
  std::string group = {};
};

// Returns a <figure> with a histogram: equal bins over all lines' values, finer with more values,
// each line in shares of its own count. From 1,000 values on, the thousandth at each end counts in
// the outermost bin, so that one spike does not flatten the rest.
std::string histogram_figure(const std::string& title, const std::vector<HistogramLine>& lines);

// CSS and script of pages with such figures: smoothing
// (<input id="smooth" type="range" max="4">), runs hidden by <input type="checkbox"
// data-group="...">, values under the pointer, figures enlarged by a click.
extern const std::string_view kPlotStyle;
extern const std::string_view kPlotScript;

}  // namespace xrun

#pragma once
// Curves and histograms as inline SVG, coloured by the variables of html_page.h.
//
// Every line of a plot has its `group` as a class, so that a page can hide a run. It is drawn raw
// (class "raw") and smoothed ("smooth s1" .. "smooth s4"); <main data-smooth="N"> chooses. A line
// of few points (class "sparse") has marks and is never smoothed. The attributes data-x and data-y
// have the axes ("low high", "low high log") for a script that reads values off.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/console/page/plot_points.h"

namespace xrun {

// The windows of smoothing levels 1 to 4, as shares of the line's points.
constexpr double kSmoothShares[] = {0.005, 0.02, 0.05, 0.15};

struct PlotLine {
  std::string name;               // plain text, shown in the legend
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

// Returns a <figure>: title, legend (up to 8 lines), axes, lines, and marks at the lower edge for
// values that were not finite. The y axis is logarithmic if all values are positive and 5 % of them
// lie at least 2.5 decades below the greatest. A plot without a finite value says so.
std::string plot_figure(const Plot& plot);

struct HistogramLine {
  std::string name;
  std::vector<double> values;  // NaN and infinities are left out
  size_t color = 0;
  std::string group = {};
};

// Returns a <figure> with a histogram: equal bins over the values of all lines, more bins for more
// values, bars in shares of a line's own count. From 1,000 values on, the thousandth at each end
// counts in the outermost bin, so that one spike does not flatten the rest.
std::string histogram_figure(const std::string& title, const std::vector<HistogramLine>& lines);

// CSS and script of pages with such figures. <input id="smooth" type="range" max="4"> chooses the
// smoothing, <input type="checkbox" data-group="..."> hides a run, the pointer shows values, and a
// click enlarges a figure.
extern const std::string_view kPlotStyle;
extern const std::string_view kPlotScript;

}  // namespace xrun

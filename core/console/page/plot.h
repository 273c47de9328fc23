#pragma once
// Curves and histograms as inline SVG, coloured by the variables of html_page.h.
//
// Every line of a plot carries its `group` as a class, so that a page can hide a run, and stands
// there raw (class "raw") and smoothed ("smooth s1" .. "smooth s4"); <main data-smooth="N">
// chooses. A line of few points (class "sparse") has marks and is never smoothed. The figure's
// data-x and data-y hold the axes ("low high", "low high log") for a script that reads values off.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/console/page/plot_points.h"

namespace xrun {

// What smoothing 1 to 4 averages over: a share of the line's points.
constexpr double kSmoothShares[] = {0.005, 0.02, 0.05, 0.15};

struct PlotLine {
  std::string name;               // of the legend, plain text
  std::vector<PlotPoint> points;  // x grows
  size_t color = 0;               // series_color
  bool dashed = false;
  std::string group = {};  // ours: letters, digits, "-"
};

struct Plot {
  std::string title;  // plain text
  std::vector<PlotLine> lines;
  int columns = 480;  // slices that a line is reduced to
};

// A <figure>: title, legend (of up to 8 lines), axes, lines, marks below for values
// that were not finite. The y axis is logarithmic
// where all values are positive and most of them lie decades below the greatest. A plot without a
// finite value says that instead.
std::string plot_figure(const Plot& plot);

struct HistogramLine {
  std::string name;
  std::vector<double> values;  // NaN and infinities are left out
  size_t color = 0;
  std::string group = {};
};

// A <figure> of how often values occur, in equal bins over all lines' values, the more values the
// finer, each line in shares of its own count. Of 1,000 values and more the thousandth at each end
// counts in the outermost bin, so that one spike does not squash the rest.
std::string histogram_figure(const std::string& title, const std::vector<HistogramLine>& lines);

// CSS and the script of pages that hold such figures: the choice of smoothing
// (<input id="smooth" type="range" max="4">), runs hidden by <input type="checkbox"
// data-group="...">, values under the pointer, figures that grow on a click.
extern const std::string_view kPlotStyle;
extern const std::string_view kPlotScript;

}  // namespace xrun

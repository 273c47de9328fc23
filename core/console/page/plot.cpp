// A path has whole quarter pixels relative to the previous point, about five bytes per point: a
// line of 100,000 steps takes about ten kilobytes.

#include "core/console/page/plot.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>

#include "core/console/page/html_page.h"
#include "core/console/page/plot_axis.h"
#include "core/console/page/plot_points.h"
#include "core/console/terminal/table.h"

namespace xrun {

namespace {

constexpr int kUnits = 4;  // per pixel
constexpr int kWidth = 400, kHeight = 190;
constexpr int kLeft = 58, kRight = 18, kTop = 8, kBottom = 24;
constexpr size_t kSparse = 60;  // with at most so many points, each has a mark
constexpr int kSmoothColumns = 200;
constexpr double kLowShare = 0.05;  // of the values must be low for a logarithmic axis
constexpr size_t kManyValues = 1000;
constexpr double kBeyond = 0.001;  // at each end of a histogram of many values
constexpr size_t kMostLegend = 8;

struct PlotArea {
  PlotAxis x, y;
  // In units of a quarter pixel, from the upper left.
  long column(double value) const { return std::lround(x.position(value) * kWidth * kUnits); }
  long row(double value) const { return std::lround((1 - y.position(value)) * kHeight * kUnits); }
};

// "M12 40l4-3 4 9": a new "M" after each gap.
class PathText {
 public:
  void to(long x, long y) {
    if (!open_) {
      out_ += fmt::format("M{} {}", x, y);
    } else if (x == x_ && y == y_) {
      // Both points round to the same position, and a step of no length would draw nothing.
      return;
    } else {
      if (!relative_) out_ += 'l';
      number(x - x_, relative_);
      number(y - y_, true);
    }
    // Only the first step after an "M" writes the "l".
    relative_ = open_;
    open_ = true;
    x_ = x;
    y_ = y;
  }
  void gap() { open_ = relative_ = false; }
  const std::string& text() const { return out_; }

 private:
  // A minus sign already separates numbers.
  void number(long value, bool separate) {
    if (separate && value >= 0) out_ += ' ';
    out_ += std::to_string(value);
  }

  std::string out_;
  bool open_ = false, relative_ = false;
  long x_ = 0, y_ = 0;
};

// The line has a gap at a NaN.
std::string path_of(const std::vector<PlotPoint>& points, const PlotArea& frame) {
  PathText path;
  for (const PlotPoint& point : points) {
    if (std::isnan(point.y)) {
      path.gap();
    } else {
      path.to(frame.column(point.x), frame.row(point.y));
    }
  }
  return path.text();
}

std::string marks_of(const std::vector<PlotPoint>& points, const PlotArea& frame) {
  std::string out;
  for (const PlotPoint& point : points) {
    if (std::isnan(point.y)) continue;
    // h0 is a line of no length, which its round cap draws as a dot.
    out += fmt::format("M{} {}h0", frame.column(point.x), frame.row(point.y));
  }
  return out;
}

struct Extent {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool empty() const { return low > high; }
};

std::optional<PlotArea> frame_of(const Plot& plot) {
  Extent x, y;  // of all lines, which share the axes
  std::vector<double> values;
  for (const PlotLine& line : plot.lines) {
    for (const PlotPoint& point : line.points) {
      x.add(point.x);
      if (!std::isfinite(point.y)) continue;
      y.add(point.y);
      values.push_back(point.y);
    }
  }
  if (y.empty()) return std::nullopt;
  // Compares a low quantile, because a schedule that ends near zero has one tiny value and needs no
  // log scale.
  const bool log = y.low > 0 && wants_log(quantile(values, kLowShare), y.high);
  return PlotArea{plot_axis(x.low, x.high, 5), plot_axis(y.low, y.high, 5, log)};
}

std::string axes(const PlotArea& frame) {
  std::string out = "<g class=\"axes\">";
  for (const Tick& tick : frame.y.ticks) {
    const double at = (1 - frame.y.position(tick.value)) * kHeight;
    out += fmt::format(
        "<path d=\"M0 {0:.1f}h{1}\"/><text x=\"-6\" y=\"{0:.1f}\" dy=\".32em\" "
        "class=\"y\">{2}</text>",
        at, kWidth, tick.text);
  }
  for (const Tick& tick : frame.x.ticks) {
    out += fmt::format("<text x=\"{:.1f}\" y=\"{}\" class=\"x\">{}</text>",
                       frame.x.position(tick.value) * kWidth, kHeight + 16, tick.text);
  }
  out += fmt::format("<path class=\"base\" d=\"M0 {0}h{1}\"/>", kHeight, kWidth);
  return out + "</g>";
}

std::string svg_open(const PlotArea& frame, const std::string& title) {
  return fmt::format(
      "<svg viewBox=\"{} {} {} {}\" role=\"img\" aria-label=\"{}\" data-x=\"{} {}\" "
      "data-y=\"{} {}{}\">",
      -kLeft, -kTop, kLeft + kWidth + kRight, kTop + kHeight + kBottom, html_escape(title),
      frame.x.low, frame.x.high, frame.y.low, frame.y.high, frame.y.log ? " log" : "");
}

std::string path_element(std::string_view classes, const std::string& d) {
  return fmt::format("<path class=\"{}\" d=\"{}\"/>", classes, d);
}

std::string line_element(const PlotLine& line, const PlotArea& frame, int columns) {
  const bool sparse = line.points.size() <= kSparse;
  std::string out = fmt::format("<g class=\"line {}{}{}\" data-name=\"{}\" style=\"--c:{}\">",
                                line.group, line.dashed ? " dashed" : "", sparse ? " sparse" : "",
                                html_escape(line.name), series_color(line.color));
  const std::vector<PlotPoint> points = reduce_points(line.points, columns);
  out += path_element("raw", path_of(points, frame));
  if (sparse) {
    out += path_element("marks", marks_of(points, frame));
  } else {
    // The page has all levels, of which the style sheet shows one.
    for (int level = 0; level < 4; ++level) {
      const double window = kSmoothShares[level] * static_cast<double>(line.points.size());
      out += path_element(
          fmt::format("smooth s{}", level + 1),
          path_of(smooth_points(line.points, window, std::min(columns, kSmoothColumns)), frame));
    }
  }
  std::string broken;
  // Values that were not finite are marked at the lower edge.
  for (const PlotPoint& point : points) {
    if (std::isnan(point.y)) {
      broken += fmt::format("M{} {}v{}", frame.column(point.x), (kHeight - 7) * kUnits, 7 * kUnits);
    }
  }
  if (!broken.empty()) out += path_element("broken", broken);
  return out + "</g>";
}

std::string legend_entry(const std::string& name, size_t color, bool dashed,
                         const std::string& group) {
  return fmt::format("<span class=\"{}{}\" style=\"--c:{}\">{}</span> ", group,
                     dashed ? " dashed" : "", series_color(color), html_escape(name));
}

std::string figure(const std::string& title, const std::string& legend, const std::string& inside) {
  return fmt::format(
      "<figure class=\"plot\"><figcaption><b>{}</b> <span class=\"legend\">{}</span></figcaption>"
      "{}<output class=\"mono dim\">&nbsp;</output></figure>\n",
      html_escape(title), legend, inside);
}

int bins_for(size_t values) {
  return std::clamp(static_cast<int>(2 * std::sqrt(static_cast<double>(values))), 4, 30);
}

// Returns the share of the finite values in each bin; values beyond the axis count in the outer
// bins.
std::vector<double> shares_of(const std::vector<double>& values, const PlotAxis& axis, int bins) {
  std::vector<double> shares(static_cast<size_t>(bins), 0);
  double count = 0;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    const double position = std::clamp(axis.position(value), 0.0, 1.0);
    shares[static_cast<size_t>(std::min(static_cast<int>(position * bins), bins - 1))] += 1;
    count += 1;
  }
  for (double& share : shares) share /= std::max(count, 1.0);
  return shares;
}

std::string bars_of(const std::vector<double>& shares, const PlotArea& frame) {
  const auto edge = [&](size_t bin) {
    // Neighbours share an edge, so that no gap opens between bars.
    return std::lround(static_cast<double>(bin) / static_cast<double>(shares.size()) * kWidth *
                       kUnits);
  };
  PathText path;
  // From the base line up, along the bins, and down again.
  path.to(0, kHeight * kUnits);
  for (size_t bin = 0; bin < shares.size(); ++bin) {
    path.to(edge(bin), frame.row(shares[bin]));
    path.to(edge(bin + 1), frame.row(shares[bin]));
  }
  path.to(kWidth * kUnits, kHeight * kUnits);
  return path.text();
}

std::string nothing_to_draw() { return "<p class=\"dim\">no finite value was logged</p>"; }

std::string legend_of(const Plot& plot) {
  // The title names the only line.
  if (plot.lines.size() == 1 && plot.lines[0].name == plot.title) return "";
  // If not all lines fit, leaves out the dashed ones, the validation of solid ones.
  const bool crowded = plot.lines.size() > kMostLegend &&
                       std::any_of(plot.lines.begin(), plot.lines.end(),
                                   [](const PlotLine& line) { return !line.dashed; });
  std::string legend;
  size_t shown = 0, left = 0;
  for (const PlotLine& line : plot.lines) {
    if (crowded && line.dashed) continue;
    if (shown++ < kMostLegend) {
      legend += legend_entry(line.name, line.color, line.dashed, line.group);
    } else {
      ++left;
    }
  }
  return left == 0 ? legend : legend + fmt::format(" and {} more", left);
}

}  // namespace

std::string plot_figure(const Plot& plot) {
  const std::string legend = legend_of(plot);
  const std::optional<PlotArea> frame = frame_of(plot);
  if (!frame) return figure(plot.title, legend, nothing_to_draw());
  std::string inside = svg_open(*frame, plot.title) + axes(*frame);
  inside += fmt::format("<g transform=\"scale({})\">", 1.0 / kUnits);
  for (const PlotLine& line : plot.lines) inside += line_element(line, *frame, plot.columns);
  const std::string title = frame->y.log ? plot.title + " (log scale)" : plot.title;
  return figure(title, legend, inside + "</g></svg>");
}

std::string histogram_figure(const std::string& title, const std::vector<HistogramLine>& lines) {
  std::string legend;
  std::vector<double> all;
  for (const HistogramLine& line : lines) {
    if (lines.size() > 1 || line.name != title) {
      legend += legend_entry(line.name, line.color, false, line.group);
    }
    std::copy_if(line.values.begin(), line.values.end(), std::back_inserter(all),
                 [](double value) { return std::isfinite(value); });
  }
  if (all.empty()) return figure(title, legend, nothing_to_draw());
  // Otherwise a few extreme values would flatten the histogram.
  const double beyond = all.size() >= kManyValues ? kBeyond : 0;
  const PlotAxis axis = plot_axis(quantile(all, beyond), quantile(all, 1 - beyond), 5);
  // All lines share the bins, so the mean count of a line decides.
  const int bins = bins_for(all.size() / lines.size());
  std::vector<std::vector<double>> shares;
  double highest = 0;
  for (const HistogramLine& line : lines) {
    shares.push_back(shares_of(line.values, axis, bins));
    highest = std::max(highest, *std::max_element(shares.back().begin(), shares.back().end()));
  }
  // From 0, so that the heights of bars can be compared.
  const PlotArea frame{axis, plot_axis(0, highest, 4)};
  std::string inside = svg_open(frame, title) + axes(frame);
  inside += fmt::format("<g transform=\"scale({})\">", 1.0 / kUnits);
  for (size_t i = 0; i < lines.size(); ++i) {
    inside +=
        fmt::format("<g class=\"line {}\" style=\"--c:{}\">{}</g>", lines[i].group,
                    series_color(lines[i].color), path_element("bars", bars_of(shares[i], frame)));
  }
  return figure(title, legend, inside + "</g></svg>");
}

}  // namespace xrun

// A chart shows one topic X: train/X, valid/X and valid/NAME/X. The two sides of a pair share the
// chart of a single run. Losses of different recipes have different scales and units, so each kind
// of loss has its own chart.

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/base/strings.h"
#include "core/console/page/html_page.h"
#include "core/console/page/plot.h"
#include "core/console/page/plot_axis.h"
#include "core/console/report/report_sections.h"

namespace xrun {

namespace {

constexpr size_t kMostCharts = 80;
constexpr size_t kMostPageLines = 1200;  // from then on, no chart is added
constexpr double kCurveBytes = 2.0e6;    // of all curves
constexpr double kBytesAColumn = 36;     // of one line: both extremes and 4 means
constexpr int kFewestChartColumns = 40, kMostColumns = 480;
constexpr size_t kHistogramSteps = 10;  // least number for a histogram
constexpr size_t kLongRun = 60;         // points; smoothing helps beyond

enum class Topic { kResult, kPair, kUpdate };

struct TopicTitle {
  Topic topic;
  const char* title;
};
constexpr TopicTitle kTopics[] = {{Topic::kResult, "Losses and results"},
                                  {Topic::kPair, "Reward margins and lengths over time"},
                                  {Topic::kUpdate, "The update and its speed"}};

// The parts of a metric's name: "valid/mt/length_chosen" is "length", "valid mt", "chosen", and
// "valid/loss/chats", the loss of one source, is "loss by source", "valid chats".
struct MetricName {
  std::string topic, split, side;
};

MetricName split_metric_name(const RunMetrics& metrics, const std::string& name, bool join_sides) {
  const std::string whole = name.substr(0, name.rfind('/'));
  if (whole != name && metrics.find(whole) != nullptr) {  // name is its value for one source
    MetricName parsed = split_metric_name(metrics, whole, false);
    parsed.topic += " by source";
    parsed.split += " " + name.substr(whole.size() + 1);
    return parsed;
  }
  MetricName parsed{name, "", ""};
  if (name.starts_with("train/")) {
    parsed = {name.substr(6), "train", ""};
  } else if (name.starts_with("valid/")) {
    const size_t slash = name.rfind('/');
    parsed = {name.substr(slash + 1), "valid", ""};
    if (slash > 6) parsed.split += " " + name.substr(6, slash - 6);
  }
  for (const char* side : {"chosen", "rejected"}) {
    const std::string end = std::string("_") + side;
    if (!join_sides || !parsed.topic.ends_with(end)) continue;
    parsed.topic.resize(parsed.topic.size() - end.size());
    parsed.side = side;
  }
  return parsed;
}

Topic topic_of(const std::string& topic) {
  if (topic == "lr" || topic == "grad_norm" || topic.starts_with("perf/")) return Topic::kUpdate;
  // Matches prefixes, for names such as reward_chosen.
  for (const char* of_pairs : {"margin", "reward", "logprob", "length"}) {
    if (topic.starts_with(of_pairs)) return Topic::kPair;
  }
  return Topic::kResult;
}

struct Chart {
  Plot plot;
  Topic topic;
};

// Returns "dpo.lua", or "pair_losses.lua hinge" if the config has a key `loss`.
std::string loss_kind(const RunFiles& run) {
  const std::string recipe = value_of(run.record.find("recipe"));
  const Json* loss = run.config.is_object() ? run.config.find("loss") : nullptr;
  return recipe.substr(recipe.rfind('/') + 1) +
         (loss != nullptr && loss->is_string() ? " " + loss->as_string() : "");
}

// Returns the suffix of each run's loss topics: " of " and its kind of loss, or "" if all runs have
// the same kind.
std::vector<std::string> loss_kinds(Runs runs) {
  std::vector<std::string> kinds;
  for (const RunFiles& run : runs) kinds.push_back(loss_kind(run));
  const bool one = std::all_of(kinds.begin(), kinds.end(),
                               [&](const std::string& kind) { return kind == kinds[0]; });
  for (std::string& kind : kinds) kind = one ? "" : " of " + kind;
  return kinds;
}

bool is_loss(const std::string& topic) { return topic == "loss" || topic == "loss by source"; }

PlotLine line_of(const MetricSeries& series, const MetricName& name, Runs runs, size_t run) {
  PlotLine line;
  std::vector<std::string> words = {runs.size() > 1 ? runs[run].name : "", name.split, name.side};
  std::erase(words, "");
  line.name = joined(words, " ");
  // The topic of such a metric is its whole name.
  if (line.name.empty()) line.name = series.name;
  line.dashed = name.split.starts_with("valid");
  line.group = fmt::format("run-{}", run);
  line.color = run;
  line.points.reserve(series.steps.size());
  for (size_t i = 0; i < series.steps.size(); ++i) {
    line.points.push_back({static_cast<double>(series.steps[i]), series.values[i]});
  }
  return line;
}

// Returns charts in the order in which the first run logged their topics.
std::vector<Chart> charts_of(Runs runs, size_t& left_out) {
  std::vector<Chart> charts;
  std::map<std::string, size_t> index;
  const std::vector<std::string> kinds = loss_kinds(runs);
  size_t lines = 0;
  for (size_t run = 0; run < runs.size(); ++run) {
    for (const MetricSeries& series : runs[run].metrics.series) {
      MetricName name = split_metric_name(runs[run].metrics, series.name, runs.size() == 1);
      if (is_loss(name.topic)) name.topic += kinds[run];
      auto found = index.find(name.topic);
      // The limits stop new charts; existing ones still get the lines of further runs.
      if (found == index.end()) {
        if (charts.size() >= kMostCharts || lines >= kMostPageLines) {
          ++left_out;
          continue;
        }
        found = index.emplace(name.topic, charts.size()).first;
        charts.push_back({{name.topic, {}}, topic_of(name.topic)});
      }
      Plot& plot = charts[found->second].plot;
      plot.lines.push_back(line_of(series, name, runs, run));
      ++lines;
      // In a report of one run each line has its own colour, else each run.
      if (runs.size() == 1) plot.lines.back().color = plot.lines.size() - 1;
    }
  }
  return charts;
}

int columns_for(const std::vector<Chart>& charts) {
  size_t lines = 1;  // not 0, which divides below
  for (const Chart& chart : charts) lines += chart.plot.lines.size();
  return std::clamp(static_cast<int>(kCurveBytes / kBytesAColumn / static_cast<double>(lines)),
                    kFewestChartColumns, kMostColumns);
}

bool has_long_line(const std::vector<Chart>& charts) {
  for (const Chart& chart : charts) {
    for (const PlotLine& line : chart.plot.lines) {
      if (line.points.size() > kLongRun) return true;
    }
  }
  return false;
}

std::string slider() {
  return "<p><label>smoothing <input id=\"smooth\" type=\"range\" min=\"0\" max=\"4\" value=\"2\">"
         "</label> <span class=\"dim\">exponential mean over 0.5, 2, 5 or 15 % of the steps; the "
         "raw curve stays behind it, with the least and greatest value of each pixel</span></p>\n";
}

// Returns histograms of the train lines that are long enough, one per chart.
std::string histograms(const std::vector<Chart>& charts) {
  std::string out;
  for (const Chart& chart : charts) {
    // Losses and results are read as curves, and the learning rate follows a schedule: their
    // distributions mean nothing.
    if (chart.topic == Topic::kResult || chart.plot.title == "lr") continue;
    std::vector<HistogramLine> lines;
    for (const PlotLine& line : chart.plot.lines) {
      if (line.dashed || line.points.size() < kHistogramSteps) continue;
      lines.push_back({line.name, {}, line.color, line.group});
      for (const PlotPoint& point : line.points) lines.back().values.push_back(point.y);
    }
    if (!lines.empty()) out += histogram_figure(chart.plot.title, lines);
  }
  if (out.empty()) return "";
  return "<h3>Distribution of step means</h3>\n<div class=\"plots\">\n" + out + "</div>\n";
}

// Returns the number of steps and the first, last, least and greatest value of a series.
std::vector<std::string> figures_of(const MetricSeries& series) {
  double least = NAN;
  double greatest = NAN;
  // fmin and fmax ignore NaN.
  for (const double value : series.values) {
    least = std::fmin(least, value);
    greatest = std::fmax(greatest, value);
  }
  return {count_text(static_cast<int64_t>(series.steps.size())), axis_number(series.values.front()),
          axis_number(series.values.back()), axis_number(least), axis_number(greatest)};
}

// Lists all metrics of each run, drawn or not.
std::string figures(Runs runs) {
  using A = Align;
  std::string out;
  for (const RunFiles& run : runs) {
    HtmlTable table({"metric", "steps", "first", "last", "least", "greatest"},
                    {A::kLeft, A::kRight, A::kRight, A::kRight, A::kRight, A::kRight});
    for (const MetricSeries& series : run.metrics.series) {
      std::vector<std::string> cells = {html_escape(series.name)};
      for (std::string& figure : figures_of(series)) cells.push_back(std::move(figure));
      table.add(cells);
    }
    out += run_heading(runs, run) + table.html();
  }
  return html_details("figures of all metrics", out);
}

}  // namespace

std::string report_curves(Runs runs) {
  size_t left_out = 0;
  std::vector<Chart> charts = charts_of(runs, left_out);
  if (charts.empty()) return "<p class=\"dim\">no metric was logged</p>\n";
  const int columns = columns_for(charts);
  std::string out = has_long_line(charts) ? slider() : "";
  for (const TopicTitle& heading : kTopics) {
    std::string figures_of_topic;
    for (Chart& chart : charts) {
      if (chart.topic != heading.topic) continue;
      chart.plot.columns = columns;
      figures_of_topic += plot_figure(chart.plot);
    }
    if (figures_of_topic.empty()) continue;
    out += fmt::format("<h3>{}</h3>\n<div class=\"plots\">\n{}</div>\n", heading.title,
                       figures_of_topic);
  }
  if (left_out > 0) {
    out += fmt::format(
        "<p class=\"dim\">{} more metrics are not drawn; the table below has their "
        "figures</p>\n",
        count_text(static_cast<int64_t>(left_out)));
  }
  return out + histograms(charts) + figures(runs);
}

}  // namespace xrun

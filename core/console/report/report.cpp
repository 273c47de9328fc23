// Assembles the page: a summary, then one section per topic.

#include "core/console/report/report.h"

#include <fmt/core.h>

#include <cmath>
#include <filesystem>

#include "core/base/error.h"
#include "core/base/file_lock.h"
#include "core/base/strings.h"
#include "core/console/page/html_page.h"
#include "core/console/page/plot.h"
#include "core/console/page/plot_axis.h"
#include "core/console/report/report_sections.h"
#include "core/console/terminal/progress.h"
#include "core/run/record/run_record.h"

namespace xrun {

namespace {

constexpr std::string_view kStyle = R"css(
nav { margin: .6rem 0 1rem; } nav a { margin-right: 1.1em; }
.swatch { display: inline-block; width: .8em; height: .8em; border-radius: 2px;
  background: var(--c); }
label { white-space: nowrap; }
#smooth { vertical-align: middle; width: 10rem; }
.answer { white-space: pre-wrap; overflow-wrap: anywhere; min-width: 12rem; max-width: 34rem;
  max-height: 16rem; overflow-y: auto; }
.row { white-space: pre-wrap; overflow-wrap: anywhere; max-height: 22rem; overflow-y: auto;
  padding: .5rem .7rem; background: var(--panel); border-radius: 4px; flex: 1 1 22rem; }
b.trained { font-weight: 500; color: var(--link); }
.sides { display: flex; flex-wrap: wrap; gap: .8rem; margin: .2rem 0 1rem; }
tr.differs td { font-weight: 600; }
#differing:checked ~ .wide tr.same { display: none; }
.notice { border-left: 3px solid var(--bad); padding-left: .7em; }
)css";

// One topic of the page; `id` is its anchor.
struct Section {
  const char* id;
  const char* title;
  std::string (*html)(Runs runs);
};

constexpr Section kSections[] = {
    {"curves", "Curves", report_curves},
    {"samples", "Samples", report_samples},
    {"rollouts", "Rollouts", report_rollouts},
    {"data", "Data", report_ledger},
    {"rows", "Rows as they trained", report_rows},
    {"settings", "Settings", report_settings},
    {"time", "Time", report_time},
    {"memory", "Memory", report_memory},
    {"environment", "Environment and hashes", report_environment},
};

// Returns the last value of a metric, "" if it was not logged.
std::string last_of(const RunFiles& run, std::string_view name) {
  const MetricSeries* series = run.metrics.find(name);
  return series == nullptr ? "" : axis_number(series->values.back());
}

// Returns the summed time of the steps, "" if it was not logged.
std::string time_of(const RunFiles& run) {
  const MetricSeries* series = run.metrics.find("perf/step_s");
  if (series == nullptr) return "";
  double seconds = 0;
  for (const double value : series->values) seconds += std::isfinite(value) ? value : 0;
  return format_duration(seconds);
}

bool is_true(const Json* value) { return value != nullptr && value->is_bool() && value->as_bool(); }

// Lists the missing and damaged files, because of which something is not shown.
std::string notices(Runs runs) {
  std::string out;
  for (const RunFiles& run : runs) {
    for (const std::string& notice : run.notices) {
      out += fmt::format("<p class=\"notice\">{}{}</p>\n",
                         runs.size() > 1 ? html_escape(run.name) + ": " : "", html_escape(notice));
    }
  }
  return out;
}

std::string title_of(Runs runs) {
  if (runs.size() == 1) return runs[0].name;
  return fmt::format("{} runs: {}, {}{}", runs.size(), runs[0].name, runs[1].name,
                     runs.size() > 2 ? ", ..." : "");
}

// Returns the state of a run without a recorded end: "running" while a process holds its lock.
std::string open_state_text(const std::filesystem::path& dir) {
  constexpr const char* kUnknown = "not finished: killed or still running";
  const std::filesystem::path lock = dir / "lock";
  std::error_code code;
  if (dir.empty() || !std::filesystem::is_regular_file(lock, code)) return kUnknown;
  try {
    // A killed process holds no lock.
    return FileLock(lock, false).held() ? "not finished: killed" : "running";
  } catch (const Error&) {
    return kUnknown;  // another user's folder, or a file system without locks
  }
}

}  // namespace

std::string run_heading(Runs runs, const RunFiles& run) {
  return runs.size() > 1 ? fmt::format("<h3>{}</h3>\n", html_escape(run.name)) : "";
}

std::string run_state_text(const RunFiles& run) {
  // The end that the run itself recorded comes first, then the state of its lock.
  const std::string stopped = value_of(run.record.find("stopped"));
  std::string text;
  if (!stopped.empty()) {
    text = "stopped: " + stopped;
  } else if (is_true(run.record.find("finished"))) {
    text = "finished";
  } else if (const Json* limit = run.record.find("steps_limit"); limit && limit->is_int()) {
    text = fmt::format("stopped after {} by --steps", counted(limit->as_int(), "step"));
  } else {
    text = open_state_text(run.dir);
  }
  const Json* resumes = run.record.find("resumes");
  if (resumes != nullptr && resumes->size() > 0) {
    text += ", resumed " + counted(static_cast<int64_t>(resumes->size()), "time");
  }
  if (is_interactive(run.record)) text += ", a prompt was opened (see log.txt)";
  return text;
}

std::string report_summary(Runs runs) {
  using A = Align;
  HtmlTable table(
      {"run", "recipe", "state", "steps", "train/loss", "valid/loss", "time in steps", "started"},
      {A::kLeft, A::kLeft, A::kLeft, A::kRight, A::kRight, A::kRight, A::kRight});
  for (size_t i = 0; i < runs.size(); ++i) {
    const RunFiles& run = runs[i];
    std::string name = html_escape(run.name);
    // The checkbox hides the lines of the run, which have this class.
    if (runs.size() > 1) {
      name = fmt::format(
          "<label style=\"--c:{}\"><input type=\"checkbox\" checked data-group=\"run-{}\"> "
          "<span class=\"swatch\"></span> {}</label>",
          series_color(i), i, name);
    }
    table.add({name, html_escape(value_of(run.record.find("recipe"))),
               html_escape(run_state_text(run)), count_text(steps_done(run)),
               last_of(run, "train/loss"), last_of(run, "valid/loss"), time_of(run),
               html_escape(value_of(run.record.find("started")))});
  }
  return table.html() + notices(runs);
}

std::string report_page(std::span<const RunFiles> runs) {
  const std::string title = title_of(runs);
  // data-smooth is the initial level of the slider.
  std::string body = fmt::format("<main data-smooth=\"2\">\n<h1>{}</h1>\n", html_escape(title));
  body += report_summary(runs) + "<nav>";
  for (const Section& section : kSections) {
    body += fmt::format("<a href=\"#{}\">{}</a> ", section.id, section.title);
  }
  body += "</nav>\n";
  for (const Section& section : kSections) {
    body += fmt::format("<section id=\"{}\">\n<h2>{}</h2>\n{}</section>\n", section.id,
                        section.title, section.html(runs));
  }
  HtmlPage page;
  page.title = title + " - xrun report";
  page.body = body + "</main>";
  page.style = std::string(kPlotStyle) + std::string(kTableStyle) + std::string(kStyle);
  page.script = kPlotScript;
  return html_page(page);
}

}  // namespace xrun

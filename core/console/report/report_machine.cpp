// The time, memory and environment of a run, and the digests of its inputs.

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "core/base/strings.h"
#include "core/console/page/html_page.h"
#include "core/console/page/plot_axis.h"
#include "core/console/report/report_sections.h"
#include "core/console/terminal/progress.h"
#include "core/console/terminal/table.h"
#include "core/run/record/run_record.h"

namespace xrun {

namespace {

constexpr size_t kMostProfileLines = 500;

// Returns a field's number, or 0 if it is missing, as in older runs, or not a number.
double number_of(const Json* value) {
  return value != nullptr && value->is_number() ? value->as_double() : 0;
}

std::string bytes_text(double bytes) { return bytes > 0 ? format_bytes(bytes) : ""; }

std::string seconds_text(double seconds) { return fmt::format("{:.3f} s", seconds); }

std::string profile_table(const Json& profile) {
  const Json* lines = profile.find("lines");
  if (lines == nullptr || !lines->is_array()) {
    return "<p class=\"dim\">profile.json has no list of lines</p>\n";
  }
  const double seconds = number_of(profile.find("seconds"));
  using A = Align;
  HtmlTable table(
      {"line", "", "calls", "own time", "", "with calls", "allocated", "kept"},
      {A::kLeft, A::kLeft, A::kRight, A::kRight, A::kLeft, A::kRight, A::kRight, A::kRight});
  double taken = 0;  // by all lines, shown or not
  size_t shown = 0;
  for (const Json& line : lines->as_array()) {
    const double own = number_of(line.find("own_s"));
    taken += own;
    if (shown == kMostProfileLines) continue;
    ++shown;
    table.add({html_escape(value_of(line.find("file")) + ":" + value_of(line.find("line"))),
               "<code>" + html_escape(value_of(line.find("text"))) + "</code>",
               html_escape(value_of(line.find("calls"))), seconds_text(own),
               html_bar(seconds > 0 ? own / seconds : 0),
               seconds_text(number_of(line.find("total_s"))),
               bytes_text(number_of(line.find("allocated_bytes"))),
               bytes_text(number_of(line.find("kept_bytes")))});
  }
  std::string out = table.html();
  if (const size_t left = lines->size() - shown; left > 0) {
    out += fmt::format("<p class=\"dim\">profile.json has {}</p>\n",
                       counted(static_cast<int64_t>(left), "more line"));
  }
  return out + fmt::format(
                   "<p class=\"dim\">{} of {} in calls of the engine, the rest in Lua and between "
                   "calls</p>\n",
                   seconds_text(taken), seconds_text(seconds));
}

// Lists quantiles of the perf/* metrics, because a few slow steps would move a mean.
std::string speed_table(const RunFiles& run) {
  using A = Align;
  HtmlTable table({"", "median", "5 % below", "95 % below"},
                  {A::kLeft, A::kRight, A::kRight, A::kRight});
  for (const MetricSeries& series : run.metrics.series) {
    if (!series.name.starts_with("perf/")) continue;
    table.add({html_escape(series.name), axis_number(quantile(series.values, 0.5)),
               axis_number(quantile(series.values, 0.05)),
               axis_number(quantile(series.values, 0.95))});
  }
  return table.html();
}

// Returns the value at a path of keys, nullptr if it is missing.
const Json* member(const Json& object, std::initializer_list<std::string_view> path) {
  const Json* at = &object;
  for (const std::string_view key : path) at = at == nullptr ? nullptr : at->find(key);
  return at;
}

void add_memory(HtmlTable& table, const char* when, const Json* parts, double whole) {
  if (parts == nullptr || !parts->is_object()) return;
  for (const auto& [kind, bytes] : parts->as_object()) {
    const double size = number_of(&bytes);
    const bool of_process = kind == "rss";  // not only tensors
    table.add({when,
               kind == "total" ? "<b>total</b>"
               : of_process    ? "whole process"
                               : html_escape(kind),
               format_bytes(size), of_process ? "" : html_bar(size / whole)});
    when = "";  // only the first line of its group has it
  }
}

std::string memory_table(const RunFiles& run) {
  const Json* planned = member(run.record, {"memory", "planned"});
  const Json* measured = member(run.record, {"memory", "measured"});
  // A full bar is the largest value of both, which is a total; the size of the process has no bar.
  double whole = 1;  // not 0, which divides below
  for (const Json* parts : {planned, measured}) {
    if (parts == nullptr || !parts->is_object()) continue;
    for (const auto& [kind, bytes] : parts->as_object()) {
      if (kind != "rss") whole = std::max(whole, number_of(&bytes));
    }
  }
  HtmlTable table({"", "kind", "bytes", ""}, {Align::kLeft, Align::kLeft, Align::kRight});
  add_memory(table, "planned", planned, whole);
  add_memory(table, "measured", measured, whole);
  if (!table.empty()) return table.html();
  return "<p class=\"dim\">run.json has no memory: the run ended before its plan, or an older "
         "xrun made it</p>\n";
}

// Returns run.json without the fields that other sections show.
Json facts_of(const Json& record) {
  Json out = Json::object();
  if (!record.is_object()) return out;
  for (const auto& [key, value] : record.as_object()) {
    if (key == "memory" || key == "inputs" || key == "data") continue;
    out.set(key, value);
  }
  return out;
}

// Adds the inputs of the run with their files: "recipes/data/preferences.jsonl  8e45...".
void add_inputs(HtmlTable& table, const Json& record) {
  const Json* inputs = record.find("inputs");
  if (inputs == nullptr || !inputs->is_object()) return;
  for (const auto& [kind, entries] : inputs->as_object()) {
    if (!entries.is_object()) continue;
    for (const auto& [name, input] : entries.as_object()) {
      table.add({html_escape(kind + " " + name),
                 "<code>" + html_escape(value_of(input.find("digest"))) + "</code> " +
                     html_escape(value_of(input.find("name")))});
      const Json* keys = input.find("keys");
      if (keys == nullptr || !keys->is_array()) continue;
      for (const Json& key : keys->as_array()) {
        const Json* files = key.find("files");
        if (files == nullptr || !files->is_array()) continue;
        for (const Json& file : files->as_array()) {
          table.add(
              {"", fmt::format("<code>{}</code> {} ({})", html_escape(value_of(file.find("xxh3"))),
                               html_escape(value_of(file.find("name"))),
                               format_bytes(number_of(file.find("bytes"))))});
        }
      }
    }
  }
}

}  // namespace

std::string report_time(Runs runs) {
  std::string out;
  for (const RunFiles& run : runs) {
    out += run_heading(runs, run);
    out += run.profile.is_null()
               ? "<p class=\"dim\">no profile.json: a run with --profile writes the time by recipe "
                 "line</p>\n"
               : profile_table(run.profile);
    out += speed_table(run);
  }
  return out;
}

std::string report_memory(Runs runs) {
  std::string out;
  for (const RunFiles& run : runs) out += run_heading(runs, run) + memory_table(run);
  return out;
}

std::string report_environment(Runs runs) {
  std::string out;
  for (const RunFiles& run : runs) {
    HtmlTable table({});
    for (const Setting& fact : flat_settings(facts_of(run.record), Json::object())) {
      table.add({html_escape(fact.key), "<code>" + html_escape(value_of(&fact.value)) + "</code>"});
    }
    add_inputs(table, run.record);
    out += run_heading(runs, run) + table.html();
  }
  return out;
}

}  // namespace xrun

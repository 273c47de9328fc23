// The answers that a run sampled in groups: figures from metrics.jsonl, finishes and texts from the
// files of the first and the last step.

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "core/base/strings.h"
#include "core/base/utf8.h"
#include "core/console/page/html_page.h"
#include "core/console/page/plot_axis.h"
#include "core/console/report/report_sections.h"

namespace xrun {

namespace {

constexpr size_t kShownRollouts = 5;  // with the highest and with the lowest rewards
constexpr size_t kRolloutPromptBytes = 600, kRolloutAnswerBytes = 4000;

// Lists each rollout/* metric at its first, highest and last step.
std::string rollout_figures(const RunFiles& run) {
  using A = Align;
  HtmlTable table({"", "first", "highest", "last"}, {A::kLeft, A::kRight, A::kRight, A::kRight});
  for (const MetricSeries& series : run.metrics.series) {
    constexpr std::string_view kPrefix = "rollout/";
    if (!series.name.starts_with(kPrefix) || series.values.empty()) continue;
    std::string name = series.name.substr(kPrefix.size());
    if (name.starts_with("pass_at_")) name = "pass@" + name.substr(8);
    // The highest, not the best: only the reader knows if a high length is good.
    double highest = NAN;
    for (const double value : series.values) highest = std::fmax(highest, value);  // ignores NaN
    table.add({html_escape(name), axis_number(series.values.front()), axis_number(highest),
               axis_number(series.values.back())});
  }
  return table.html();
}

// Lists how answers ended, as shares of each step.
std::string finish_shares(const std::vector<RecordedRollouts>& steps) {
  std::map<std::string, std::vector<double>> shares;  // by finish, one for each step
  for (size_t s = 0; s < steps.size(); ++s) {
    for (const RecordedRollout& one : steps[s].answers) {
      std::vector<double>& of = shares[one.finish];
      of.resize(steps.size());  // 0 for steps without this finish
      of[s] += 1 / static_cast<double>(steps[s].answers.size());
    }
  }
  std::vector<std::string> header = {"finish"};
  for (const RecordedRollouts& step : steps) header.push_back(fmt::format("step {}", step.step));
  HtmlTable table(std::move(header), {Align::kLeft, Align::kRight, Align::kRight});
  for (const auto& [finish, of] : shares) {
    std::vector<std::string> cells = {html_escape(finish)};
    for (const double share : of) cells.push_back(fmt::format("{:.0f} %", 100 * share));
    table.add(cells);
  }
  return table.html();
}

std::string number_or_blank(const std::optional<double>& value) {
  return value ? axis_number(*value) : "";
}

std::string parts_text(const RecordedRollout& one) {
  std::string text;
  for (const auto& [name, value] : one.parts) {
    add_item(text, name + " " + axis_number(value));
  }
  return text;
}

std::string box_of(const std::string& text, size_t bytes, const char* classes) {
  return fmt::format("<div class=\"{}\">{}</div>", classes, html_escape(shortened(text, bytes)));
}

std::string answers_table(const RecordedRollouts& step, bool highest) {
  using A = Align;
  std::vector<size_t> order = ordered_by(step.answers, "reward", highest);
  // Halves, so that the two tables share no answer.
  const size_t half = highest ? (order.size() + 1) / 2 : order.size() / 2;
  order.resize(std::min(half, kShownRollouts));
  HtmlTable table({"reward", "advantage", "parts", "tokens", "finish", "prompt", "answer"},
                  {A::kRight, A::kRight, A::kLeft, A::kRight});
  for (const size_t i : order) {
    const RecordedRollout& one = step.answers[i];
    table.add({number_or_blank(one.reward), number_or_blank(one.advantage),
               html_escape(parts_text(one)), count_text(one.length), html_escape(one.finish),
               box_of(one.prompt, kRolloutPromptBytes, "answer dim"),
               box_of(one.text, kRolloutAnswerBytes, "answer")});
  }
  return table.html();
}

// Shows answers of the last step only, below figures of the whole run.
std::string rollouts_of_run(const RunFiles& run) {
  std::string out = rollout_figures(run) + finish_shares(run.rollouts);
  const RecordedRollouts& last = run.rollouts.back();
  const std::array<std::string, 2> tables = {answers_table(last, true), answers_table(last, false)};
  const std::array<const char*, 2> names = {"highest", "lowest"};
  for (size_t i = 0; i < tables.size(); ++i) {
    if (tables[i].empty()) continue;
    out += fmt::format("<h3>{} rewards of step {}</h3>\n{}", names[i], last.step, tables[i]);
  }
  return out;
}

}  // namespace

std::string report_rollouts(Runs runs) {
  std::string out;
  for (const RunFiles& run : runs) {
    out += run_heading(runs, run);
    out += run.rollouts.empty() ? "<p class=\"dim\">none: the recipe samples no groups "
                                  "(policy:sample writes them)</p>\n"
                                : rollouts_of_run(run);
  }
  return out;
}

}  // namespace xrun

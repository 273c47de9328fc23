// The reports before and after a run: dim names in one column, values wrapped beside them.

#include "core/console/terminal/summary.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "core/base/file_access.h"
#include "core/base/running_program.h"
#include "core/base/strings.h"
#include "core/bundle/bundle_file.h"
#include "core/console/terminal/progress.h"
#include "core/console/terminal/shown_text.h"
#include "core/console/terminal/table.h"
#include "core/console/terminal/text_width.h"
#include "core/data/rows/ledger.h"
#include "core/run/record/run_summary.h"

namespace xrun {

namespace {

// On a terminal, breaks `text` at blanks to fit beside `indent` columns. A path stays whole, so
// that it can be copied, and so does redirected output, so that it can be searched.
std::vector<std::string> lines_for(const Console& console, const std::string& text, int indent) {
  constexpr int kNarrowest = 10;
  if (!console.traits().terminal || text.find(' ') == std::string::npos) return {text};
  return broken_lines(text, std::max(console.traits().width - indent, kNarrowest),
                      WideWord::kPathOverflows);
}

// "name    text" lines, the names dim and padded to one width.
class Facts {
 public:
  explicit Facts(const Console& console) : console_(console) {}

  // `whole`: the text is never broken, so that a path or command with blanks can be copied.
  void add(const std::string& name, const std::string& text, bool whole = false) {
    if (text.empty()) return;
    facts_.push_back({shown_text(name, Blanks::kBreaksMarked), shown_text(text), whole});
  }

  std::string text() const {
    int width = 0;
    for (const Fact& fact : facts_) width = std::max(width, text_width(fact.name));
    std::string out;
    for (const auto& [name, text, whole] : facts_) {
      std::string before =
          console_.dim(name) + std::string(static_cast<size_t>(width - text_width(name) + 2), ' ');
      for (const std::string& line :
           whole ? std::vector{text} : lines_for(console_, text, width + 2)) {
        out += before + line + "\n";
        before = std::string(static_cast<size_t>(width) + 2, ' ');
      }
    }
    return out;
  }

 private:
  struct Fact {
    std::string name, text;
    bool whole;
  };
  const Console& console_;
  std::vector<Fact> facts_;
};

std::string parameter_text(const OpeningReport& report) {
  if (report.parameters < 0) return "";
  std::string text = count_text(report.parameters);
  if (report.trainable >= 0) text += fmt::format(", {} trainable", count_text(report.trainable));
  return text;
}

std::string count_or_nothing(int64_t value) { return value < 0 ? "" : count_text(value); }

// "loss 0.4213, accuracy 0.81" from the keys `prefix` + name.
std::string metric_text(const Json& object, const std::string& prefix) {
  std::string text;
  for (const char* name : {"loss", "accuracy"}) {
    const Json* value = object.find(prefix + name);
    if (value == nullptr || !value->is_number()) continue;
    add_item(text, fmt::format("{} {}", name, format_metric(value->as_double())));
  }
  return text;
}

// "0.1250 at step 0, 0.7250 at step 30"
std::string score_text(const ScoreRange& score) {
  std::string text =
      fmt::format("{} at step {}", format_metric(score.first), count_text(score.first_step));
  if (score.last_step > score.first_step) {
    text += fmt::format(", {} at step {}", format_metric(score.last), count_text(score.last_step));
  }
  return text;
}

// Adds one line per validation set: "valid", "valid/other". A value from before the last of `steps`
// names its step.
void add_valid(Facts& facts, const Json& object, int64_t steps) {
  if (!object.is_object()) return;
  const Json* const step = object.find("step");
  const bool earlier = step != nullptr && step->is_int() && step->as_int() < steps;
  constexpr std::string_view kEnd = "/loss";
  for (const auto& [key, value] : object.as_object()) {
    // Every set has a loss, whose key names the set.
    if (!key.starts_with("valid/") || !key.ends_with(kEnd)) continue;
    const std::string set = key.substr(0, key.size() - kEnd.size());
    facts.add(set, metric_text(object, set + "/") +
                       (earlier ? fmt::format(" (step {})", count_text(step->as_int())) : ""));
  }
}

std::string step_text(const RunSummary& summary) {
  std::string text = count_text(summary.steps);
  if (summary.total_steps > summary.steps) text += " of " + count_text(summary.total_steps);
  if (summary.first_step > 0) {
    text += fmt::format(" (resumed at step {})", count_text(summary.first_step));
  }
  return text;
}

// Returns the peak memory of the process, and that of its tensors with what was planned.
std::string memory_text(const RunSummary& summary) {
  std::string text = format_bytes(summary.peak_rss_mb * 1024 * 1024);
  if (summary.tensor_bytes > 0) {
    text += fmt::format(", {} {} (planned {})",
                        summary.tensors_on_host ? "of which tensors" : "tensors of the GPU",
                        format_bytes(static_cast<double>(summary.tensor_bytes)),
                        format_bytes(static_cast<double>(summary.planned_bytes)));
  }
  return text;
}

// "3 of train/kl, 1 of valid/loss: null in metrics.jsonl"; at most four names.
std::string nonfinite_text(const std::map<std::string, int64_t>& metrics) {
  std::vector<std::string> values;
  for (const auto& [name, count] : metrics) {
    // A recipe chose the name, which must not begin a line.
    const std::string shown = shown_text(name, Blanks::kBreaksMarked);
    values.push_back(fmt::format("{} of {}", count_text(count), shown));
  }
  return listed(values, 4) + ": null in metrics.jsonl";
}

}  // namespace

std::string opening_report(const OpeningReport& report, const Console& console) {
  Facts facts(console);
  facts.add("recipe", report.recipe);
  facts.add("model", report.model);
  facts.add("parameters", parameter_text(report));
  facts.add("tokens", count_or_nothing(report.tokens));
  facts.add("steps", count_or_nothing(report.steps));
  for (const auto& [name, text] : report.facts) facts.add(name, text);
  facts.add("output", report.output, true);
  std::string out = shown_text(report.ledger) + facts.text();
  for (const std::string& notice : report.notices) {
    std::string rest = shown_text(notice);
    if (rest.empty() || rest.back() != '\n') rest += '\n';
    for (size_t from = 0, end = 0; from < rest.size(); from = end + 1) {
      end = rest.find('\n', from);
      for (const std::string& line : lines_for(console, rest.substr(from, end - from), 0)) {
        out += line + "\n";
      }
    }
  }
  return out;
}

Console console_of_file(const Console& like) {
  return {[](std::string_view) {}, {.width = like.traits().width}};
}

std::string resume_line(const std::string& dir, int64_t step,
                        const std::vector<std::string>& notices) {
  std::string text =
      step < 0
          ? fmt::format("{}: there is no checkpoint, so the run starts from the beginning\n", dir)
          : fmt::format("resumed {} at step {}\n", dir, step);
  for (const std::string& notice : notices) {
    text += notice;
    if (!notice.empty() && notice.back() != '\n') text += '\n';
  }
  return shown_text(text);
}

std::string stopping_line(double step_seconds) {
  // A short step needs no warning.
  const bool slow = step_seconds >= 2;
  return fmt::format("stopping after this step{}; another Ctrl-C stops at once, without saving",
                     slow ? ", in up to " + format_duration(step_seconds) : "");
}

// A bundle runs with limits and with a cache of its own unless the command names --trusted again.
// The command must also repeat what the bundle may read and where its inputs are searched.
std::string resume_command(const std::string& recipe, const std::string& dir) {
  const bool bundle = is_bundle_name(recipe), limited = file_access_limited();
  std::string command =
      fmt::format("{} {} --run {} --resume", run_called_as(), shell_word(recipe), shell_word(dir));
  if (bundle && !limited) command += " --trusted";
  if (bundle || limited) {
    for (const auto& path : named_paths()) command += " --read " + shell_word(path.string());
  }
  return command;
}

std::string closing_summary(const RunSummary& summary, const Console& console) {
  // add() leaves out what is empty.
  Facts facts(console);
  facts.add("steps", step_text(summary));
  facts.add("stopped", summary.stopped);
  facts.add("train",
            summary.last_train.is_object() ? metric_text(summary.last_train, "train/") : "");
  for (const ScoreRange& score : summary.scores) facts.add(score.name, score_text(score));
  add_valid(facts, summary.last_valid, summary.steps);
  std::string time = format_duration(summary.seconds);
  if (summary.first_step > 0) time += " since the resume";
  if (summary.tokens > 0 && summary.seconds > 0) {
    const double rate = static_cast<double>(summary.tokens) / summary.seconds;
    time += fmt::format(", {} tokens/s overall", count_text(std::llround(rate)));
  }
  facts.add("time", time);
  facts.add("peak memory", memory_text(summary));
  if (!summary.nonfinite.empty()) {
    facts.add("not finite", nonfinite_text(summary.nonfinite));
  }
  if (summary.skipped > 0) {
    facts.add("no update",
              fmt::format("in {}, whose losses have weight 0", counted(summary.skipped, "step")));
  }
  if (summary.never_updated) {
    facts.add("note", "no step updated the weights: the loop never calls adamw:step");
  }
  facts.add("run", summary.dir.string(), true);
  for (const auto& [path, dtype] : summary.exported) {
    // hf/ is the trained model; other exports are named by their folders.
    const std::string name = path.filename() == "hf" ? "model" : path.filename().string();
    facts.add(name, fmt::format("{} ({})", path.string(), dtype));
  }
  if (summary.total_steps > summary.steps && summary.stopped.starts_with("--steps")) {
    facts.add("to continue", resume_command(summary.recipe, summary.dir.string()), true);
  }
  return facts.text();
}

}  // namespace xrun

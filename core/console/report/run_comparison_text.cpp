// A section per subject; a section without a difference is one dim line.

#include <fmt/core.h>

#include <algorithm>

#include "core/base/json.h"
#include "core/base/strings.h"
#include "core/base/utf8.h"
#include "core/console/report/report.h"
#include "core/console/terminal/shown_text.h"
#include "core/console/terminal/table.h"
#include "core/console/terminal/text_width.h"

namespace xrun {

namespace {

constexpr size_t kTextValueBytes = 200;
constexpr size_t kListedNames = 8;
constexpr size_t kListedFacts = 200;
constexpr size_t kDigestDigits = 12;
constexpr int kExactWidth = 80;         // least columns for numbers with all digits
constexpr int kTableWidth = 60;         // least columns for two values side by side
constexpr int kUnlimited = 1 << 30;     // columns without a terminal
constexpr std::string_view kIn = "  ";  // before text under a section's name

std::string shown(const std::string& text) {
  return shown_text(shortened(text, kTextValueBytes), Blanks::kBreaksMarked);
}

std::string indented(const std::string& text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    // The last line may lack its line end.
    const size_t end = std::min(text.find('\n', at), text.size() - 1);
    out += kIn;
    out += text.substr(at, end - at + 1);
    at = end + 1;
  }
  return out;
}

// One value in both runs.
struct TextRow {
  std::string name, a, b, note;
};

class ComparisonText {
 public:
  ComparisonText(const RunComparison& comparison, const Console& console)
      : one_(comparison),
        console_(console),
        width_(console.traits().terminal ? console.traits().width : kUnlimited) {}

  std::string text() {
    config();
    code();
    facts("data", one_.data, same_data());
    results();
    history();
    if (one_.machine_known) {
      facts("machine", one_.machine, "the same kind of machine and settings");
    }
    return legend_ + out_;
  }

 private:
  // `same` is the section's text if nothing differs, else "".
  void section(const char* name, const std::string& same) {
    const std::string title = fmt::format("{:8}  ", name);
    // Name and verdict share a line where they fit.
    if (!same.empty() && text_width(title + same) <= width_) {
      out_ += console_.bold(title) + console_.dim(same) + "\n";
      return;
    }
    out_ += console_.bold(name) + "\n";
    if (!same.empty()) prose(same);
  }
  // Writes text under a section's name, broken at blanks.
  void prose(const std::string& text) {
    for (const std::string& line : broken_lines(text, width_ - text_width(kIn))) {
      out_ += fmt::format("{}{}\n", kIn, line);
    }
  }
  // Returns a line under a section's name, cut at the width.
  std::string cut(const std::string& line) const {
    return cut_to_width(std::string(kIn) + line, width_);
  }

  // Writes the values side by side, or on a narrow terminal one below the other with diff signs.
  void values(const std::string& first, const std::vector<TextRow>& rows,
              Align align = Align::kLeft) {
    if (rows.empty()) return;
    if (width_ < kTableWidth) return values_below(rows);
    TextTable table({first, shown(one_.name_a), shown(one_.name_b), ""},
                    {Align::kLeft, align, align, Align::kLeft});
    for (const TextRow& row : rows) table.add({row.name, row.a, row.b, row.note});
    // Width 0 cuts nothing.
    const int width = width_ == kUnlimited ? 0 : width_ - text_width(kIn);
    out_ += indented(table.text(width));
  }
  void values_below(const std::vector<TextRow>& rows) {
    // Signs need a legend; columns have the runs' names in their header.
    legend_ = console_.red(cut_to_width("- " + shown(one_.name_a), width_)) + "\n" +
              console_.bold(cut_to_width("+ " + shown(one_.name_b), width_)) + "\n";
    for (const TextRow& row : rows) {
      prose(row.name);
      out_ += console_.red(cut("- " + row.a)) + "\n" + console_.bold(cut("+ " + row.b)) + "\n";
      if (!row.note.empty()) prose(row.note);
    }
  }

  void config() {
    if (one_.settings.empty()) return section("config", "the same settings");
    section("config", one_.settings_differ() ? "" : "no difference that has an effect");
    std::vector<TextRow> rows;
    for (const SettingDifference& setting : one_.settings) {
      rows.push_back({shown(setting.key), with_origin(setting.a, setting.origin_a),
                      with_origin(setting.b, setting.origin_b), setting.note});
    }
    values("key", rows);
  }

  static std::string with_origin(const std::string& value, const std::string& origin) {
    return shown(value) + (origin.empty() ? "" : fmt::format(" ({})", shown(origin)));
  }

  void code() {
    if (!one_.recipe_known) {
      section("code", "");
      prose("a recipe.lua is missing, so the recipes cannot be compared");
    } else if (!one_.code_differs()) {
      section("code", one_.recipe.empty() ? "the same recipe and program"
                                          : "the same except for comments, blanks and spellings of "
                                            "numbers in the recipe");
    } else {
      section("code", "");
      if (one_.recipe.empty()) prose("the same recipe.lua");
    }
    for (const std::string& line : diff_text(one_.recipe)) {
      const std::string text = cut(shown_text(line, Blanks::kBreaksMarked));
      out_ += (line[0] == '-'   ? console_.red(text)
               : line[0] == '+' ? console_.bold(text)
                                : console_.dim(text)) +
              "\n";
    }
    list(one_.program);
  }

  void list(const std::vector<FactDifference>& facts) {
    std::vector<TextRow> rows;
    for (const FactDifference& fact : facts) {
      if (rows.size() == kListedFacts) break;
      rows.push_back({shown(fact.name), shown(fact.a), shown(fact.b), ""});
    }
    values("", rows);
    if (facts.size() > rows.size()) {
      prose(fmt::format("and {} more", count_text(std::ssize(facts) - std::ssize(rows))));
    }
  }

  // For recipes and bundles only the files are compared, and the settings that decide how they are
  // read are named.
  std::string same_data() const {
    if (!one_.data_known) return "not compared: the files of one of them are unknown";
    if (one_.rows_known) return "the same rows, tokens and order";
    std::vector<std::string> keys;
    for (const std::string& key : one_.data_settings()) keys.push_back(shown(key));
    if (keys.empty()) return "the same files, read by the same settings";
    return fmt::format("the same files; rows, tokens or order may differ by {}",
                       listed(keys, kListedNames));
  }

  void facts(const char* name, const std::vector<FactDifference>& facts, const std::string& same) {
    section(name, facts.empty() ? same : "");
    list(facts);
  }

  void results() {
    if (!one_.results_differ()) {
      return section("results",
                     !one_.results_known ? "not compared: one of them has no steps"
                     : one_.common_lines == 0
                         ? "neither run logged a step"
                         : fmt::format("the same in all {} lines of metrics, bit for bit{}",
                                       count_text(one_.common_lines),
                                       one_.common_steps() == 0
                                           ? ""
                                           : "; both have " + steps_text(one_.common_steps())));
    }
    section("results", "");
    if (one_.first_divergence >= 0) {
      std::vector<std::string> names;
      for (const auto& metric : one_.diverging) names.push_back(shown(metric.name));
      prose(fmt::format("of {} in both the first difference is at step {}: {}",
                        steps_text(one_.common_steps()), count_text(one_.first_divergence),
                        listed(names, kListedNames)));
    } else if (one_.common_lines > 0) {
      prose(fmt::format("the same values, bit for bit, in the {} that both have",
                        steps_text(one_.common_steps())));
    }
    only(one_.name_a, one_.only_a);
    only(one_.name_b, one_.only_b);
    std::vector<TextRow> rows;
    if (one_.steps_a != one_.steps_b) {
      rows.push_back({"steps", count_text(one_.steps_a), count_text(one_.steps_b), ""});
    }
    for (const FinalDifference& last : one_.finals) {
      rows.push_back({"last " + shown(last.metric), number(last.a), number(last.b), ""});
    }
    for (const FactDifference& file : one_.weights) {
      rows.push_back({shown(file.name), shown(file.a.substr(0, kDigestDigits)),
                      shown(file.b.substr(0, kDigestDigits)), ""});
    }
    values("", rows, Align::kRight);
  }

  // "a was resumed with --force at step 8 (2026-11-28T18:00:00+0000); changed: config.beta"
  void history() {
    if (one_.resumes.empty()) return;
    section("history", "");
    for (const ChangedResume& one : one_.resumes) {
      std::vector<std::string> changed;
      for (const std::string& field : one.changed) changed.push_back(shown(field));
      prose(fmt::format("{} was resumed{}{} ({}); changed: {}", shown(one.run),
                        one.forced ? " with --force" : "",
                        one.step < 0 ? "" : " at step " + count_text(one.step), shown(one.at),
                        listed(changed, kListedNames)));
    }
  }

  static std::string steps_text(int64_t steps) { return counted(steps, "step"); }

  std::string number(double value) const {
    // Shows all digits if there is room, since runs may differ in the last one.
    return width_ < kExactWidth ? fmt::format("{:.5g}", value) : shortest_decimal(value);
  }

  void only(const std::string& name, const std::vector<std::string>& metrics) {
    if (metrics.empty()) return;
    std::vector<std::string> names;
    for (const std::string& metric : metrics) names.push_back(shown(metric));
    prose(fmt::format("only {} logged {}", shown(name), listed(names, kListedNames)));
  }

  const RunComparison& one_;
  const Console& console_;
  const int width_;
  std::string legend_;  // names the run of each sign, if signs are used
  std::string out_;
};

}  // namespace

std::string comparison_text(const RunComparison& comparison, const Console& console) {
  return ComparisonText(comparison, console).text();
}

}  // namespace xrun

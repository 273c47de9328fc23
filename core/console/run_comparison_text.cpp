#include "core/console/run_comparison_text.h"

#include <fmt/core.h>

#include <algorithm>

#include "core/base/count_text.h"
#include "core/base/json.h"
#include "core/base/utf8.h"
#include "core/console/shown_text.h"
#include "core/console/table.h"

namespace xrun {

namespace {

constexpr size_t kValueBytes = 200;
constexpr size_t kListedNames = 8;
constexpr size_t kDigestDigits = 12;
constexpr int kExactWidth = 80;  // columns from which all digits of a number find room
constexpr int kNarrowest = 18;

std::string shown(const std::string& text) {
  return shown_text(shortened(text, kValueBytes), Blanks::kBreaksMarked);
}

std::string indented(const std::string& text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size() - 1);
    out += "  " + text.substr(at, end - at + 1);
    at = end + 1;
  }
  return out;
}

class ComparisonText {
 public:
  ComparisonText(const RunComparison& comparison, const Console& console)
      : one_(comparison), console_(console) {}

  std::string text() {
    config();
    code();
    facts("data", one_.data, "the same rows, tokens and order");
    results();
    facts("machine", one_.machine, "the same kind of machine and settings");
    return std::move(out_);
  }

 private:
  void part(const char* name, const std::string& same) {
    out_ += same.empty() ? console_.bold(name) + "\n"
                         : fmt::format("{}  {}\n", console_.bold(fmt::format("{:8}", name)),
                                       console_.dim(same));
  }
  void table(const TextTable& table) {
    const int width =
        console_.traits().terminal ? std::max(console_.traits().width - 2, kNarrowest) : 0;
    out_ += indented(table.text(width));
  }
  std::vector<std::string> header(std::string first) const {
    return {std::move(first), shown(one_.name_a), shown(one_.name_b)};
  }

  void config() {
    if (one_.settings.empty()) return part("config", "the same settings");
    part("config", one_.settings_differ() ? "" : "no difference that has an effect");
    auto names = header("key");
    names.emplace_back("");
    TextTable rows(std::move(names));
    for (const SettingDifference& setting : one_.settings) {
      rows.add({shown(setting.key), with_origin(setting.a, setting.origin_a),
                with_origin(setting.b, setting.origin_b), setting.excuse});
    }
    table(rows);
  }

  static std::string with_origin(const std::string& value, const std::string& origin) {
    return shown(value) + (origin.empty() ? "" : fmt::format(" ({})", shown(origin)));
  }

  void code() {
    if (!one_.recipe_known) {
      part("code", "");
      out_ += "  a recipe.lua is missing, so the recipes cannot be compared\n";
    } else if (!one_.code_differs()) {
      part("code", one_.recipe.empty() ? "the same recipe and program"
                                       : "the same, but for comments and blanks of the recipe");
    } else {
      part("code", "");
      if (one_.recipe.empty()) out_ += "  the same recipe.lua\n";
    }
    for (const std::string& line : diff_text(one_.recipe)) {
      const std::string text = "  " + shown_text(line, Blanks::kBreaksMarked);
      out_ += (line[0] == '-'   ? console_.red(text)
               : line[0] == '+' ? console_.bold(text)
                                : console_.dim(text)) +
              "\n";
    }
    list(one_.program);
  }

  void list(const std::vector<FactDifference>& facts) {
    if (facts.empty()) return;
    TextTable rows(header(""));
    for (const FactDifference& fact : facts) {
      rows.add({shown(fact.name), shown(fact.a), shown(fact.b)});
    }
    table(rows);
  }

  void facts(const char* name, const std::vector<FactDifference>& facts, const char* same) {
    part(name, facts.empty() ? same : "");
    list(facts);
  }

  void results() {
    if (!one_.results_differ()) {
      return part("results", one_.common_lines == 0
                                 ? "neither run logged a step"
                                 : fmt::format("the same in all {} lines of metrics, bit for bit",
                                               count_text(one_.common_lines)));
    }
    part("results", "");
    if (one_.first_apart >= 0) {
      std::string names;
      for (size_t i = 0; i < std::min(one_.apart.size(), kListedNames); ++i) {
        names += (i > 0 ? ", " : "") + shown(one_.apart[i].name);
      }
      if (one_.apart.size() > kListedNames) {
        names += fmt::format(" and {} more", one_.apart.size() - kListedNames);
      }
      out_ += fmt::format("  they part at step {}: {}\n", count_text(one_.first_apart), names);
    } else if (one_.common_lines > 0) {
      out_ += "  the same values, bit for bit, at every step that both have\n";
    }
    only(one_.name_a, one_.only_a);
    only(one_.name_b, one_.only_b);
    using A = Align;
    TextTable rows(header(""), {A::kLeft, A::kRight, A::kRight});
    if (one_.steps_a != one_.steps_b) {
      rows.add({"steps", count_text(one_.steps_a), count_text(one_.steps_b)});
    }
    for (const FinalDifference& last : one_.finals) {
      rows.add({"last " + shown(last.metric), number(last.a), number(last.b)});
    }
    for (const FactDifference& file : one_.weights) {
      rows.add({shown(file.name), shown(file.a).substr(0, kDigestDigits),
                shown(file.b).substr(0, kDigestDigits)});
    }
    table(rows);
  }

  std::string number(double value) const {
    const bool narrow = console_.traits().terminal && console_.traits().width < kExactWidth;
    return narrow ? fmt::format("{:.5g}", value) : shortest_double(value);
  }

  void only(const std::string& name, const std::vector<std::string>& metrics) {
    if (metrics.empty()) return;
    std::string names;
    for (size_t i = 0; i < std::min(metrics.size(), kListedNames); ++i) {
      names += (i > 0 ? ", " : "") + shown(metrics[i]);
    }
    out_ += fmt::format("  {} alone logged {}{}\n", shown(name), names,
                        metrics.size() > kListedNames ? ", ..." : "");
  }

  const RunComparison& one_;
  const Console& console_;
  std::string out_;
};

}  // namespace

std::string comparison_text(const RunComparison& comparison, const Console& console) {
  return ComparisonText(comparison, console).text();
}

}  // namespace xrun

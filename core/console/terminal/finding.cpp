// Verdict, subject and text in columns; the fix follows an arrow on a line below.

#include "core/console/terminal/finding.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include "core/console/terminal/shown_text.h"
#include "core/console/terminal/table.h"
#include "core/console/terminal/text_width.h"

namespace xrun {

namespace {

constexpr int kVerdictColumns = 9;
constexpr int kNarrowestText = 24;  // with fewer columns, the text goes below its subject

// Returns the lines of `text`, broken at blanks to at most `columns`, except for wider paths; 0:
// not broken.
std::vector<std::string> wrapped(const std::string& text, int columns) {
  std::vector<std::string> lines;
  for (size_t from = 0; from <= text.size();) {
    const size_t end = std::min(text.find('\n', from), text.size());
    const std::string line = text.substr(from, end - from);
    const auto parts =
        columns > 0 ? broken_lines(line, columns, WideWord::kPathOverflows) : std::vector{line};
    lines.insert(lines.end(), parts.begin(), parts.end());
    from = end + 1;
  }
  return lines;
}

std::string painted(Verdict verdict, const Console& console) {
  const std::string name = pad_to_width(verdict_name(verdict), kVerdictColumns);
  switch (verdict) {
    case Verdict::kOk: return console.dim(name);
    case Verdict::kNote: return console.bold(name);
    case Verdict::kMissing:
    case Verdict::kWrong: return console.red(name);
  }
  return name;
}

}  // namespace

const char* verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk: return "ok";
    case Verdict::kNote: return "note";
    case Verdict::kMissing: return "missing";
    case Verdict::kWrong: return "wrong";
  }
  return "";
}

std::string finding_text(const Finding& finding, const Console& console, int subject_columns) {
  const bool terminal = console.traits().terminal;
  // On a narrow terminal the text goes below its subject, slightly indented.
  const int beside = kVerdictColumns + subject_columns + 2;
  const bool below = terminal && console.traits().width - beside < kNarrowestText;
  const int indent = below ? 2 : beside;
  const int columns = terminal ? std::max(console.traits().width - indent, 8) : 0;
  const std::string spaces(static_cast<size_t>(indent), ' ');
  const std::string text =
      shown_text(finding.location.empty() ? finding.text : finding.location + ": " + finding.text);
  std::string out = painted(finding.verdict, console);
  // A subject must stay one line.
  const std::string subject = shown_text(finding.subject, Blanks::kBreaksMarked);
  out += below ? subject + "\n" : pad_to_width(subject, subject_columns + 2);
  bool first = !below;
  for (const std::string& line : wrapped(text, columns)) {
    out += (first ? "" : spaces) + line + "\n";
    first = false;
  }
  if (finding.fix.empty()) return out;
  first = true;
  // The arrow takes three columns.
  for (const std::string& line :
       wrapped(shown_text(finding.fix), terminal ? std::max(columns - 3, 5) : 0)) {
    out += spaces + (first ? "-> " : "   ") + line + "\n";
    first = false;
  }
  return out;
}

Json finding_json(const Finding& finding) {
  Json out(Json::Object{{"verdict", verdict_name(finding.verdict)},
                        {"subject", finding.subject},
                        {"text", finding.text},
                        {"needed", finding.needed}});
  if (!finding.fix.empty()) out.set("remedy", finding.fix);
  if (finding.location.empty()) return out;
  // "FILE:LINE", or only a file, whose name may have a colon but no number after it.
  const size_t colon = finding.location.rfind(':');
  int64_t line = 0;
  const char* end = finding.location.data() + finding.location.size();
  const bool numbered =
      colon != std::string::npos &&
      std::from_chars(finding.location.data() + colon + 1, end, line).ptr == end && line > 0;
  out.set("file", numbered ? finding.location.substr(0, colon) : finding.location);
  if (numbered) out.set("line", line);
  return out;
}

bool any_trouble(const std::vector<Finding>& findings) {
  return std::any_of(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.needed &&
           (finding.verdict == Verdict::kMissing || finding.verdict == Verdict::kWrong);
  });
}

}  // namespace xrun

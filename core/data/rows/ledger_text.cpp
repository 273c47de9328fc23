// A ledger as text, and the checks that turn it into an error.

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "core/base/strings.h"
#include "core/data/rows/byte_stream.h"
#include "core/data/rows/data_fault.h"
#include "core/data/rows/drop_reasons.h"
#include "core/data/rows/ledger.h"
#include "core/text/chat/template_laws.h"
#include "core/text/chat/text_difference.h"

namespace xrun {

namespace {

constexpr size_t kShownRows = 10;  // of a kind, in an error message
// A thousand too_long rows would hide the one with another fault.
constexpr size_t kListedOfReason = 3;

template <typename Row, typename Print>
std::vector<std::string> first_lines(const std::vector<Row>& rows, size_t count,
                                     const Print& print) {
  std::vector<std::string> lines;
  for (size_t i = 0; i < rows.size() && i < count; ++i) lines.push_back(print(rows[i]));
  return lines;
}

void append_source_text(std::string& out, const SourceLedger& source, size_t listed) {
  for (const auto& [reason, count] : source.dropped) {
    out += fmt::format("  dropped {}: {}\n", counted(count, "row"), reason);
  }
  const auto note = [&](const std::string& text, int64_t count, const char* unit) {
    if (count > 0) out += fmt::format("  note: {} ({})\n", text, counted(count, unit));
  };
  for (const auto& [text, count] : source.notes) {
    out += fmt::format("  note: {} ({})\n", text, source.noted_rows(text));
  }
  note("further notes, not listed", source.more_notes, "row");
  note("rows of weight 0 are not trained", source.zero_weight, "row");
  note("tokens that reach across the border of a generation span are trained", source.straddlers,
       "token");
  const auto list = [&](const std::vector<std::string>& lines, int64_t total,
                        const std::string& all) {
    for (const std::string& line : lines) out += fmt::format("  {}\n", line);
    const int64_t more = total - std::ssize(lines);
    if (lines.empty() || more == 0) return;
    const std::string where =
        all.empty() ? fmt::format("ledger.json lists the first {}", SourceLedger::kListedRows)
                    : fmt::format("{} lists all", all);
    out += fmt::format("  and {} more; {}\n", count_text(more), where);
  };
  list(source.bad_lines(listed), source.bad_total(), source.bad_rows_file);
  list(source.cut_lines(listed), source.cut, "");
  list(source.repaired_lines(listed), source.repaired, "");
}

void append_lines(std::string& text, const std::vector<std::string>& lines) {
  for (const std::string& line : lines) text += "\n  " + line;
}

// True for rows that over_length leaves out.
bool is_about_length(const std::string& reason) {
  return reason == kTooLongReason || reason == kNoAnswerLeftReason;
}

// Settings to continue with if every row is dropped for its length.
std::vector<PastedSetting> too_long_settings(const SourceLedger& ledger, int64_t model_length) {
  for (const auto& [reason, rows] : ledger.dropped) {
    if (!is_about_length(reason)) return {};
  }
  std::vector<PastedSetting> settings = {
      {"over_length=raise", "stop at the first row, with its length and the max_length it needs"}};
  // A max_length beyond the model's own limit would not help.
  const int64_t longest = ledger.longest_dropped;
  if (longest > 0 && (model_length == 0 || longest <= model_length)) {
    settings.insert(settings.begin(),
                    {fmt::format("max_length={}", longest),
                     "train on the longest of them too, if the memory allows it"});
  }
  return settings;
}

bool is_most(const SourceLedger& ledger, const char* reason) {
  const auto lost = ledger.dropped.find(reason);
  return lost != ledger.dropped.end() && 2 * lost->second > ledger.bad_total();
}

// Returns true if most bad rows lose their tool calls or a turn in the template, which is not a
// fault of the rows.
bool loses_messages(const SourceLedger& ledger) {
  return is_most(ledger, kLostCallsReason) || is_most(ledger, kLostTurnReason);
}

bool any_detail(const SourceLedger& ledger, std::string_view text) {
  return std::any_of(ledger.bad.begin(), ledger.bad.end(),
                     [&](const BadRow& row) { return row.detail.find(text) != std::string::npos; });
}

// Returns the fix for bad rows: "; fix the rows or ...", "" if settings alone help.
std::string fix_of_rows(const SourceLedger& ledger) {
  if (loses_messages(ledger)) return "";
  if (!is_most(ledger, kBadExtraReason)) return "; fix the rows or name their columns in `fields`";
  const int64_t others = ledger.dropped.at(kBadExtraReason);
  return fmt::format(
      "; the first row decides the type of a column that `keep` names: {} of its type, {} of "
      "another; write one type in every row, or leave the column out of `keep`",
      counted(ledger.kept, "row"), count_text(others));
}

// Settings to continue with, before `last`.
std::vector<PastedSetting> settings_with_laws(const SourceLedger& ledger,
                                              std::vector<PastedSetting> last) {
  if (!loses_messages(ledger)) return last;
  if (is_most(ledger, kLostTurnReason)) {
    last.insert(last.begin(),
                {fmt::format("laws.{}=false", kTurnsLaw), "train on the rows without these turns"});
    return last;
  }
  std::vector<PastedSetting> settings = {
      {fmt::format("laws.{}=false", kToolCallsLaw), "train on the rows without their calls"}};
  // No template renders OpenAI's older key: these rows need a map first.
  if (!any_detail(ledger, " by \"function_call\"")) {
    // A row with several calls in a turn names qwen3 alone.
    const bool parallel = any_detail(ledger, "as does qwen3");
    settings.insert(
        settings.begin(),
        {"template=qwen2.5", fmt::format("a template that renders tool calls; {} so too",
                                         parallel ? "qwen3 does" : "qwen3 and llama-3.1 do")});
  }
  settings.insert(settings.end(), last.begin(), last.end());
  return settings;
}

// Returns "" if its file is unknown or has changed.
std::string first_bad_row(const SourceLedger& ledger) {
  if (ledger.bad.empty()) return "";
  const SourceLine& at = ledger.bad.front().at;
  if (at.file < 0 || static_cast<size_t>(at.file) >= ledger.files.size()) return "";
  return row_of_file(ledger.files[static_cast<size_t>(at.file)], at.line);
}

// Returns true if most bytes above 127 come in pairs as GB 2312, GBK and GB 18030 write Chinese
// text.
bool looks_like_gb18030(std::string_view text) {
  size_t paired = 0, alone = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    if (static_cast<uint8_t>(text[at]) < 0x80) continue;
    // Lead and trail bytes of GB 2312 are 0xA1 and above.
    const bool pair = at + 1 < text.size() && static_cast<uint8_t>(text[at]) >= 0xa1 &&
                      static_cast<uint8_t>(text[at + 1]) >= 0xa1;
    ++(pair ? paired : alone);
    at += pair ? 1 : 0;
  }
  // Four characters at least: a few stray bytes prove nothing.
  return paired >= 4 && paired > 4 * alone;
}

// Returns the max_bad that allows this share of bad rows; nothing if almost all rows are bad, since
// then the file or the configuration is wrong.
std::vector<PastedSetting> larger_share(double share, const std::string& effect) {
  // Rounded up to the next percent, so that the pasted setting passes.
  const double needed = std::ceil(100 * share) / 100;
  if (needed >= 1) return {};
  return {{fmt::format("max_bad={:.2f}", needed), effect}};
}

// Returns the setting to train on the kept rows. None if an extra column has another type in most
// rows: the kept ones are then the few that happen to agree with the first row.
std::vector<PastedSetting> train_on_others(const SourceLedger& ledger, double share) {
  if (is_most(ledger, kBadExtraReason) && ledger.bad_total() > ledger.kept) return {};
  return larger_share(share, "train on the other " + counted(ledger.kept, "row"));
}

// Throws Error if a larger share of the rows than `max_bad` is not UTF-8: the file has another
// encoding, and its text would train as replacement characters.
void check_encoding(const SourceLedger& ledger, double max_bad) {
  if (ledger.rows == 0) return;
  // Escapes are ASCII and say nothing about the encoding.
  const int64_t repaired = ledger.repaired - ledger.lone_surrogates;
  const double share = static_cast<double>(repaired) / static_cast<double>(ledger.rows);
  if (share <= max_bad || ledger.repaired_at.empty()) return;
  const SourceLine& at = ledger.repaired_at.front();
  if (at.file < 0 || static_cast<size_t>(at.file) >= ledger.files.size()) return;
  const std::string& file = ledger.files[static_cast<size_t>(at.file)];
  const bool chinese = looks_like_gb18030(row_of_file(file, at.line));
  throw data_error(
      fmt::format("{}: {} of {} are not UTF-8{}; convert the file: iconv -f {} -t UTF-8 {} > "
                  "utf8.jsonl",
                  file, count_text(repaired), counted(ledger.rows, "row"),
                  chinese ? " and look like GB18030" : "", chinese ? "GB18030" : "ENCODING", file),
      "", larger_share(share, "train with a replacement character for each invalid byte"));
}

// "chats (tools.jsonl)": the name of a source, and its file if that has another name.
std::string name_and_file(const SourceLedger& ledger) {
  // A data set of several files is named as a whole.
  if (ledger.files.size() != 1 || ledger.files[0] == ledger.name) return ledger.name;
  return fmt::format("{} ({})", ledger.name, ledger.files[0]);
}

std::string bad_rows_text(const SourceLedger& ledger) {
  std::string text;
  append_lines(text, ledger.bad_lines(kShownRows));
  return text;
}

}  // namespace

// Rows with the same reason and detail are listed once, at most kListedOfReason of a reason.
std::vector<std::string> SourceLedger::bad_lines(size_t count) const {
  std::vector<std::string> firsts, others;                 // of each reason
  std::map<std::string, std::set<std::string>> of_reason;  // the details shown
  for (const BadRow& row : bad) {
    const std::string at = location(row.at);
    // An error of the JSON reader has the row's location in front, with the column.
    const bool located = row.detail.starts_with(at + ":");
    const size_t colon = located ? row.detail.find(": ", at.size()) : std::string::npos;
    const std::string detail =
        colon == std::string::npos ? row.detail : row.detail.substr(colon + 2);
    std::set<std::string>& shown = of_reason[row.reason];
    // Equal details say nothing new.
    if (shown.size() == kListedOfReason || !shown.insert(detail).second) continue;
    std::vector<std::string>& lines = shown.size() == 1 ? firsts : others;
    lines.push_back(fmt::format("{}  {}: {}",
                                colon == std::string::npos ? at : row.detail.substr(0, colon),
                                row.reason, detail));
  }
  for (std::string& line : others) {
    if (firsts.size() >= count) break;
    firsts.push_back(std::move(line));
  }
  return firsts;
}

std::vector<std::string> SourceLedger::cut_lines(size_t count) const {
  return first_lines(cut_at, count, [&](const CutRow& row) {
    std::string line = fmt::format(
        "{}  cut: {} removed", location(row.at),
        row.sides.empty() ? fmt::format("{} of the row's {} tokens", count_text(row.cut_tokens),
                                        count_text(row.tokens))
                          : row.sides);
    // Only the first cut is shown with the text around it.
    if (&row == &cut_at.front()) {
      line += fmt::format("\n    kept  ...{}\n    lost  {}...", visible_blanks(cut_kept),
                          visible_blanks(cut_lost));
    }
    return line;
  });
}

std::vector<std::string> SourceLedger::repaired_lines(size_t count) const {
  std::vector<std::string> lines = first_lines(repaired_at, count, [&](const SourceLine& at) {
    return fmt::format("{}  repaired: invalid UTF-8", location(at));
  });
  const auto escapes =
      first_lines(lone_surrogate_at, count - lines.size(), [&](const SourceLine& at) {
        return fmt::format("{}  repaired: a lone surrogate escape", location(at));
      });
  lines.insert(lines.end(), escapes.begin(), escapes.end());
  return lines;
}

std::string Ledger::text(size_t listed) const {
  std::string out;
  for (const SourceLedger& source : sources) {
    out += fmt::format("{}: {} = {} kept + {} dropped; {} tokens, {} trained", source.name,
                       counted(source.rows, "row"), count_text(source.kept),
                       count_text(source.dropped_total()), count_text(source.tokens),
                       count_text(source.trained_tokens));
    if (source.cut > 0) {
      out += fmt::format("; {} cut by {}", counted(source.cut, "row"),
                         counted(source.cut_tokens, "token"));
    }
    if (const int64_t rows = source.repaired - source.lone_surrogates; rows > 0) {
      out += fmt::format("; invalid UTF-8 repaired in {}", counted(rows, "row"));
    }
    if (source.lone_surrogates > 0) {
      out += fmt::format("; a lone surrogate escape repaired in {}",
                         counted(source.lone_surrogates, "row"));
    }
    out += '\n';
    append_source_text(out, source, listed);
  }
  return out;
}

// Also called while a cache is built (`building`), to stop at the first such rows.
void check_strict(const SourceLedger& ledger, bool building) {
  const int64_t bad = ledger.bad_total();
  if (bad == 0 && ledger.cut == 0 && ledger.repaired == 0) return;
  std::string rows = bad_rows_text(ledger);
  append_lines(rows, ledger.cut_lines(kShownRows));
  append_lines(rows, ledger.repaired_lines(kShownRows));
  throw data_error(
      fmt::format("{}: of {}{} rows {} would be dropped, {} cut, {} repaired, and strict = "
                  "true{}{}",
                  ledger.name, building ? "the first " : "", count_text(ledger.rows),
                  count_text(bad), count_text(ledger.cut), count_text(ledger.repaired),
                  building ? "; no further row is read" : "", rows),
      first_bad_row(ledger),
      {{"strict=false", "drop, cut or repair such rows; the ledger counts them"}});
}

void check_kept(const SourceLedger& ledger, double max_bad, const std::string& hint,
                int64_t model_length) {
  if (ledger.rows == 0) {
    // A .json file without an array is refused when it is read.
    const bool arrays =
        std::all_of(ledger.files.begin(), ledger.files.end(),
                    [](const std::string& file) { return content_name(file).ends_with(".json"); });
    const char* why = "it is empty";
    if (arrays && !ledger.files.empty()) {
      why = ledger.files.size() == 1 ? "its array is empty" : "the array of each file is empty";
    } else if (ledger.lines > 0) {
      why = "every line is blank";
    }
    throw data_error(fmt::format("{}: has no rows: {}", name_and_file(ledger), why), "", {});
  }
  if (ledger.kept == 0) {
    const std::string rows =
        ledger.rows == 1 ? "its only row cannot be used"
                         : fmt::format("none of its {} can be used", counted(ledger.rows, "row"));
    const std::string longest =
        ledger.longest_dropped == 0
            ? ""
            : fmt::format("; the longest has {} tokens", count_text(ledger.longest_dropped));
    throw data_error(fmt::format("{}: {}{}{}{}", name_and_file(ledger), rows, longest, hint,
                                 bad_rows_text(ledger)),
                     first_bad_row(ledger),
                     settings_with_laws(ledger, too_long_settings(ledger, model_length)));
  }
  check_encoding(ledger, max_bad);
  // Rows that over_length leaves out do not mean that the columns are read wrongly.
  int64_t bad = ledger.bad_total();
  for (const auto& [reason, count] : ledger.dropped) bad -= is_about_length(reason) ? count : 0;
  const double share = static_cast<double>(bad) / static_cast<double>(ledger.kept + bad);
  if (share <= max_bad) return;
  // Examples of the rows that count here, not of those that are too long.
  SourceLedger examples = ledger;
  std::erase_if(examples.bad, [](const BadRow& row) { return is_about_length(row.reason); });
  throw data_error(
      fmt::format("{}: {} of {} rows ({:.3g} %) are bad, max_bad allows {:.3g} %{}{}",
                  name_and_file(ledger), count_text(bad), count_text(ledger.kept + bad),
                  100 * share, 100 * max_bad, fix_of_rows(examples), bad_rows_text(examples)),
      first_bad_row(examples), settings_with_laws(examples, train_on_others(examples, share)));
}

}  // namespace xrun

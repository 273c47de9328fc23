// A ledger for people: a line a source, then reasons, notes, and the first rows of each kind.

#include <fmt/core.h>

#include <map>

#include "core/base/count_text.h"
#include "core/base/counted.h"
#include "core/data/rows/ledger.h"
#include "core/text/chat/text_difference.h"

namespace xrun {

namespace {

constexpr size_t kListedOfReason = 3;  // a thousand rows that are too long hide the one that is bad

template <typename Row, typename Print>
std::vector<std::string> first_lines(const std::vector<Row>& rows, size_t count,
                                     const Print& print) {
  std::vector<std::string> lines;
  for (size_t i = 0; i < rows.size() && i < count; ++i) lines.push_back(print(rows[i]));
  return lines;
}

void append_source_text(std::string& out, const SourceLedger& source, size_t listed) {
  for (const auto& [reason, count] : source.dropped) {
    out += fmt::format("  dropped {:>10}  {}\n", count_text(count), reason);
  }
  const auto note = [&](int64_t count, const std::string& text) {
    if (count > 0) out += fmt::format("  note    {:>10}  {}\n", count_text(count), text);
  };
  for (const auto& [text, count] : source.notes) note(count, text);
  note(source.more_notes, "notes of other kinds, not listed");
  note(source.zero_weight, "rows of weight 0, not trained");
  note(source.straddlers, "tokens half inside a generation span, trained whole");
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

}  // namespace

std::vector<std::string> SourceLedger::bad_lines(size_t count) const {
  std::vector<std::string> lines;
  std::map<std::string, size_t> of_reason;
  for (const BadRow& row : bad) {
    if (lines.size() == count) break;
    if (++of_reason[row.reason] > kListedOfReason) continue;
    lines.push_back(fmt::format("{}  {}: {}", place(row.at), row.reason, row.detail));
  }
  return lines;
}

std::vector<std::string> SourceLedger::cut_lines(size_t count) const {
  return first_lines(cut_at, count, [&](const CutRow& row) {
    std::string line = fmt::format("{}  cut: {} of {} tokens are taken off", place(row.at),
                                   count_text(row.cut_tokens), count_text(row.tokens));
    if (&row == &cut_at.front()) {
      line += fmt::format("\n    kept  ...{}\n    lost  {}...", visible_blanks(cut_kept),
                          visible_blanks(cut_lost));
    }
    return line;
  });
}

std::vector<std::string> SourceLedger::repaired_lines(size_t count) const {
  return first_lines(repaired_at, count, [&](const SourceLine& at) {
    return fmt::format("{}  repaired: invalid UTF-8", place(at));
  });
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
    if (source.repaired > 0) {
      out += fmt::format("; invalid UTF-8 repaired in {}", counted(source.repaired, "row"));
    }
    out += '\n';
    append_source_text(out, source, listed);
  }
  return out;
}

}  // namespace xrun

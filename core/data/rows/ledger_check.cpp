#include "core/data/rows/ledger_check.h"

#include "core/base/count_text.h"

namespace xrun {

namespace {

constexpr size_t kListedRows = 10;  // of a kind, in an error message

void append_lines(std::string& text, const std::vector<std::string>& lines) {
  for (const std::string& line : lines) text += "\n  " + line;
}

std::string bad_rows_text(const SourceLedger& ledger) {
  std::string text;
  append_lines(text, ledger.bad_lines(kListedRows));
  return text;
}

}  // namespace

void check_strict(const SourceLedger& ledger, bool building) {
  const int64_t bad = ledger.bad_total();
  if (bad == 0 && ledger.cut == 0 && ledger.repaired == 0) return;
  std::string rows = bad_rows_text(ledger);
  append_lines(rows, ledger.cut_lines(kListedRows));
  append_lines(rows, ledger.repaired_lines(kListedRows));
  throw Error(
      fmt::format("{}: of {}{} rows {} would be dropped, {} cut, {} repaired, and strict = "
                  "true{}{}",
                  ledger.name, building ? "the first " : "", count_text(ledger.rows),
                  count_text(bad), count_text(ledger.cut), count_text(ledger.repaired),
                  building ? "; no further row is read" : "", rows));
}

void check_kept(const SourceLedger& ledger, double max_bad, const std::string& hint) {
  XRUN_CHECK(ledger.rows > 0, "{}: has no rows", ledger.name);
  XRUN_CHECK(ledger.kept > 0, "{}: none of its {} rows can be used{}{}", ledger.name,
             count_text(ledger.rows), hint, bad_rows_text(ledger));
  const auto too_long = ledger.dropped.find("too_long");
  const int64_t bad =
      ledger.bad_total() - (too_long == ledger.dropped.end() ? 0 : too_long->second);
  const double share = static_cast<double>(bad) / static_cast<double>(ledger.kept + bad);
  if (share <= max_bad) return;
  SourceLedger counted = ledger;
  std::erase_if(counted.bad, [](const BadRow& row) { return row.reason == "too_long"; });
  throw Error(fmt::format(
      "{}: {} of {} rows that are not too long ({:.3g} %) would be dropped, max_bad allows "
      "{:.3g} %; mend the rows or name their columns in `fields`, or raise max_bad{}",
      ledger.name, count_text(bad), count_text(ledger.kept + bad), 100 * share, 100 * max_bad,
      bad_rows_text(counted)));
}

}  // namespace xrun

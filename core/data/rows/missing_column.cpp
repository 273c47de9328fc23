// A ledger counts rows by the text of their notes, so one file both writes and looks up the texts.

#include "core/data/rows/missing_column.h"

#include <fmt/format.h>

#include <vector>

#include "core/base/strings.h"

namespace xrun {

namespace {

constexpr std::string_view kUnused[] = {"the column \"", "\" is not used"};
constexpr std::string_view kRenamedEnd = "\", which `fields` names: keep = { ";
constexpr size_t kListed = 4;  // columns in a message

int64_t rows_of(const SourceLedger& source, const std::string& note) {
  const auto found = source.notes.find(note);
  return found == source.notes.end() ? 0 : found->second;
}

std::string renamed_beginning(const std::string& column) {
  return fmt::format("keep: these rows have their \"{}\" as \"", column);
}

// Returns the file's name for a column that `keep` calls by ours; "" if no note says so.
std::string renamed_column(const SourceLedger& source, const std::string& column) {
  for (const auto& [note, rows] : source.notes) {
    if (!is_renamed_note(note, column)) continue;
    const size_t begin = renamed_beginning(column).size();
    return note.substr(begin, note.find(kRenamedEnd, begin) - begin);
  }
  return "";
}

std::vector<std::string> unused_columns(const SourceLedger& source) {
  std::vector<std::string> columns;
  for (const auto& [note, rows] : source.notes) {
    if (!note.starts_with(kUnused[0]) || !note.ends_with(kUnused[1])) continue;
    const size_t size = note.size() - kUnused[0].size() - kUnused[1].size();
    columns.push_back(note.substr(kUnused[0].size(), size));
  }
  return columns;
}

}  // namespace

std::string no_column_note(const std::string& column) {
  return fmt::format("keep: these rows have no \"{}\" with text or a number", column);
}

std::string left_out_note(const std::string& column) {
  return fmt::format("keep: the \"{}\" of these rows is left out, since the first row has none",
                     column);
}

std::string renamed_note(const std::string& column, const std::string& theirs,
                         const std::string& keep) {
  return fmt::format("{}{}{}{} }} keeps it", renamed_beginning(column), theirs, kRenamedEnd, keep);
}

bool is_renamed_note(std::string_view note, const std::string& column) {
  return note.starts_with(renamed_beginning(column));
}

std::string unused_note(const std::string& column) {
  return fmt::format("{}{}{}", kUnused[0], column, kUnused[1]);
}

MissingColumn missing_column(const Ledger& ledger, const std::string& column) {
  for (const SourceLedger& source : ledger.sources) {
    if (rows_of(source, unused_note(column)) > 0) {
      return {"`keep` does not name the column of the data",
              fmt::format("data = {{{{ path = ..., keep = {{ \"{}\" }} }}}} keeps it", column)};
    }
    if (const std::string theirs = renamed_column(source, column); !theirs.empty()) {
      return {fmt::format("`fields` reads \"{}\" from the column \"{}\", and `keep` keeps columns "
                          "under their own names",
                          column, theirs),
              fmt::format("name that one, keep = {{ \"{0}\" }}, and read it as s.{0}", theirs)};
    }
    if (rows_of(source, no_column_note(column)) == 0) continue;
    if (const int64_t with = rows_of(source, left_out_note(column)); with > 0) {
      return {fmt::format("the first row of {} has no \"{}\", so `keep` leaves the column out; {} "
                          "of {} have it",
                          source.name, column, count_text(with), counted(source.rows, "row")),
              fmt::format("give every row the column, put a row that has it first, or leave out "
                          "rows without it: filter = function(row) return row.{} ~= nil end",
                          column)};
    }
    const std::vector<std::string> unused = unused_columns(source);
    const std::string why =
        fmt::format("no row of {} has text or a number in \"{}\"", source.name, column);
    if (unused.empty()) return {why, "give every row the column"};
    return {fmt::format("{}; columns that are not used: {}", why, listed(unused, kListed)),
            fmt::format(
                "keep the right one and read it under its own name: keep = {{ \"{0}\" }}, or "
                "--set 'data.1.keep={{\"{0}\"}}' for the first source; a reward then reads s.{0}; "
                "`fields` renames only the columns of the prompt and the answer",
                unused[0])};
  }
  return {};
}

}  // namespace xrun

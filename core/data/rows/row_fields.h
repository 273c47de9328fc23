#pragma once
// The columns of a JSON row under the names that its kind gives them.

#include <initializer_list>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/data/rows/column_guess.h"
#include "core/data/rows/data_settings.h"
#include "core/data/rows/row.h"

namespace xrun {

struct RowFormat;

// Reads the members of rows: those that a kind knows, under their names or those of `fields`, and
// the extra columns. Immutable.
class RowFields {
 public:
  // `ours`: every name that the kind reads. Throws UsageError with the nearest name if
  // settings.fields renames another one, or if settings.keep names a column twice or one that
  // batches and views have themselves.
  RowFields(RowKind kind, std::vector<std::string> ours, const RowSettings& settings);

  // Returns the row's member for one of our names; nullptr if it is absent or null. "weight" is
  // read only where `fields` names a column for it: any other column of that name is not a
  // weight.
  const Json* find(const Json& row, const std::string& ours) const;
  // Returns its text; "" if it is absent or null. Throws RowRefusal "wrong_type".
  std::string text(const Json& row, const std::string& ours) const;
  // Returns the file's name for one of ours; of weight "" unless `fields` names it.
  std::string spelled(const std::string& ours) const;

  // Throws RowRefusal "not_an_object" unless the row is a JSON object.
  static void require_object(const Json& row);
  // Throws RowRefusal "unknown_format" with the columns seen, those that `fields` names and the row
  // lacks, the columns of the nearest format of this kind and those still missing, and the reader
  // of another kind whose format the row has or else a setting that may name them.
  [[noreturn]] void refuse_format(const Json& row) const;
  // Returns the end of a message about a missing column: "; columns that are not used: question,
  // good; name the right one, for example fields = { prompt = "question" }", or its columns if
  // every one is read. A column that `fields` names is reported as lacking before them, and only
  // one whose name tells is proposed for it.
  std::string other_columns(const Json& row, const std::string& ours) const;
  // Ends a refusal of a row with chosen and rejected by another reader: names theirs; else "".
  std::string pair_hint(const Json& row) const;

  // Notes each column in `losers` that the row has: it is ignored beside `winner`.
  void note_losers(const Json& row, const std::string& winner,
                   std::initializer_list<const char*> losers, RowExtras& out) const;
  // Throws RowRefusal "columns_differ": two columns with one meaning hold different values.
  [[noreturn]] void refuse_rivals(const std::string& first, const std::string& second) const;

  // Sets extra columns and the loss weight. Throws RowRefusal: bad_extra_column, bad_weight.
  void read_extra(const Json& row, RowExtras& out) const;
  // Ends a row's notes: sorts them, removes duplicates and adds the columns that are not used.
  void finish_notes(const Json& row, RowExtras& out) const;

 private:
  bool is_named(const std::string& ours) const;  // by `fields`
  // ', did you mean "score"?' with the row's column nearest to a name; "" if none is near.
  static std::string suggestion(const std::string& name, const Json& row);
  // '; fields names messages = "conv", a column that the row lacks'; "" if the row has it.
  static std::string missing_field(const Json& row, const std::string& ours,
                                   const std::string& theirs);
  // The same for each column of `fields`.
  std::string missing_fields(const Json& row) const;
  bool is_unread(const std::string& column) const;
  // The explanation of a row of another kind, or of an instruction row; "" for any other. `columns`
  // are those that are not null.
  std::string known_row_hint(const Json& row, const std::vector<std::string>& columns) const;
  // The nearest format, with the columns that may have its names.
  std::string guessed_row_hint(const Json& row, const std::vector<std::string>& columns) const;
  std::vector<std::string> with_our_names(const std::vector<std::string>& columns) const;
  // The file's name of an extra column that `keep` names by ours, if the row has it there alone and
  // as text or a number; else "".
  std::string renamed_extra(const Json& row, const std::string& name) const;
  // '"question", "answer"': `keep` with the file's names.
  std::string keep_by_their_names(const Json& row) const;
  // guess_columns for the columns of `wanted` that the row lacks.
  ColumnNames guessed_fields(const Json& row, const RowFormat& wanted) const;
  // 'fields = { prompt = "question" }' of the given names and more, or the --set of it if the
  // configuration has the source.
  std::string naming(const Json& row, const ColumnNames& more) const;

  RowKind kind_;
  std::vector<std::string> ours_;
  ColumnNames fields_;
  std::vector<std::string> keep_;
  std::string config_path_;
};

}  // namespace xrun

#pragma once
// Reads the columns of a JSON row under the names that its kind gives them ("our names").

#include <initializer_list>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/data/rows/column_guess.h"
#include "core/data/rows/data_settings.h"
#include "core/data/rows/row.h"

namespace xrun {

struct RowFormat;

// Reads the columns that a kind of rows knows, under our names or those of `fields`, and the extra
// columns. Immutable.
class RowFields {
 public:
  // `ours` has every name that the kind reads. Throws UsageError
  //   if settings.fields renames a name that is not one of `ours`; the message has the nearest
  //   if settings.keep names a column twice, or one that batches and views have themselves
  RowFields(RowKind kind, std::vector<std::string> ours, const RowSettings& settings);

  // Returns the row's value for one of our names; nullptr if it is absent or null. "weight" is read
  // only if `fields` names a column for it: a column that merely has that name may be another
  // weight.
  const Json* find(const Json& row, const std::string& ours) const;
  // Returns the value as a string; "" if it is absent or null. Throws RowRefusal "wrong_type".
  std::string text(const Json& row, const std::string& ours) const;
  // Returns the file's name for one of ours; "" for "weight" unless `fields` names its column.
  std::string spelled(const std::string& ours) const;

  // Throws RowRefusal "not_an_object" unless the row is a JSON object.
  static void require_object(const Json& row);
  // Throws RowRefusal "unknown_format". The message lists the columns that the row has, those that
  // `fields` names and the row lacks, and those of this kind's nearest format; it ends with the
  // reader of another kind whose format the row has, or else with a setting that may name the
  // missing columns.
  [[noreturn]] void refuse_format(const Json& row) const;
  // Returns the end of a message about a missing column: "; columns that are not used: question,
  // good; name the right one, for example fields = { prompt = "question" }", or the row's columns
  // if all are used. If `fields` names a column for `ours` that the row lacks, the text begins with
  // it, and another column is proposed only by its name.
  std::string other_columns(const Json& row, const std::string& ours) const;
  // Returns the end of a refusal of a row that has chosen and rejected: the reader of such rows; ""
  // for any other row.
  std::string pair_hint(const Json& row) const;

  // Adds a note for each column in `losers` that the row has: it is ignored beside `winner`.
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
  // Returns ', did you mean "score"?' with the row's column nearest to a name; "" if none is near.
  static std::string suggestion(const std::string& name, const Json& row);
  // Returns '; fields names messages = "conv", a column that the row lacks'; "" if the row has it.
  static std::string missing_field(const Json& row, const std::string& ours,
                                   const std::string& theirs);
  // Returns missing_field() of every column in `fields`, joined.
  std::string missing_fields(const Json& row) const;
  bool is_unread(const std::string& column) const;
  // Returns the explanation of a row of another kind, or of an instruction row; "" for any other.
  // `columns` are those that are not null.
  std::string known_row_hint(const Json& row, const std::vector<std::string>& columns) const;
  // Returns the columns of the nearest format, and which of the row's columns they may be.
  std::string guessed_row_hint(const Json& row, const std::vector<std::string>& columns) const;
  std::vector<std::string> with_our_names(const std::vector<std::string>& columns) const;
  // Returns the file's name of an extra column that `keep` calls by ours, if the row has text or a
  // number under the file's name and nothing under ours; else "".
  std::string renamed_extra(const Json& row, const std::string& name) const;
  // Returns `keep` with the file's names: '"question", "answer"'.
  std::string keep_by_their_names(const Json& row) const;
  // Returns guess_columns() for the columns of `wanted` that the row lacks.
  ColumnNames guessed_fields(const Json& row, const RowFormat& wanted) const;
  // Returns 'fields = { prompt = "question" }' with the names given so far and `more`; as a --set
  // if the source is in the configuration.
  std::string naming(const Json& row, const ColumnNames& more) const;

  RowKind kind_;
  std::vector<std::string> ours_;
  ColumnNames fields_;
  std::vector<std::string> keep_;
  std::string config_path_;
};

}  // namespace xrun

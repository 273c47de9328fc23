#pragma once
// The columns of a JSON row under the names that a row type gives them.

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "core/base/json.h"
#include "core/data/rows/data_settings.h"
#include "core/data/rows/row_extras.h"
#include "core/data/rows/row_kind.h"

namespace xrun {

// Reads the members of rows: renamed ones, kept ones, and those that nobody reads. Immutable.
class RowFields {
 public:
  // `ours`: every name that the row type reads. Throws UsageError with the nearest name if
  // settings.fields renames another one, or if a column is kept twice or under a name that batches
  // and views have themselves.
  RowFields(RowKind kind, std::vector<std::string> ours, const RowSettings& settings);

  // The row's member for one of our names; nullptr if it is absent or null. A column that happens
  // to be called weight is no weight: that name is read only where `fields` says so.
  const Json* find(const Json& row, const std::string& ours) const;
  // The row's text for one of our names; "" if it is absent or null. Throws RowRefusal
  // "wrong_type".
  std::string text(const Json& row, const std::string& ours) const;
  // The file's name for one of ours; of weight "" unless `fields` names it.
  std::string spelled(const std::string& ours) const;

  // Throws RowRefusal "not_an_object" unless the row is a JSON object.
  static void require_object(const Json& row);
  // Throws RowRefusal "unknown_format": the columns seen, those that `fields` names in vain, and
  // else the known format nearest to them.
  [[noreturn]] void refuse_format(const Json& row) const;
  // "; columns that are not read: question, good; name the right one, say fields = { prompt =
  // "question" }": what a message about a missing column ends with. "" if every column is read.
  std::string other_columns(const Json& row, const std::string& ours) const;

  // Notes each of our columns in `losers` that the row has: it is not read where `winner` is.
  void note_losers(const Json& row, const std::string& winner,
                   std::initializer_list<const char*> losers, RowExtras& out) const;
  // Throws RowRefusal "columns_differ": two columns of one meaning hold different things.
  [[noreturn]] void refuse_rivals(const std::string& first, const std::string& second) const;

  // Sets kept columns and the loss weight. Throws RowRefusal: kept_column, bad_weight.
  void read_kept(const Json& row, RowExtras& out) const;
  // Ends a row's notes: sorts them, drops repetitions, and notes the columns that nobody reads.
  void finish_notes(const Json& row, RowExtras& out) const;

 private:
  // '; fields names messages = "conv", a column that the row lacks' for each such; "" without one.
  std::string missing_fields(const Json& row) const;
  bool is_unread(const std::string& column) const;
  // 'prompt = "question", completion = "answer"': what makes a known format of columns that other
  // sets call so; "" if it would not be whole.
  std::string likely_fields(const std::vector<std::string>& columns) const;

  RowKind kind_;
  std::vector<std::string> ours_;
  std::vector<std::pair<std::string, std::string>> fields_;
  std::vector<std::string> keep_;
};

}  // namespace xrun

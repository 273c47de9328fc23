#pragma once
// Explains, from the notes of a ledger, why a column of the data is not a field of batches and
// samples.

#include <string>
#include <string_view>

#include "core/data/rows/ledger.h"

namespace xrun {

// Return the notes on a column that `keep` names and the first row lacks: on rows that lack a value
// too, and on rows whose value is left out.
std::string no_column_note(const std::string& column);
std::string left_out_note(const std::string& column);
// Returns the note on a column that `keep` calls by our name although `fields` reads it from a
// column of another name.
//   keep   the names that would keep it: "\"question\", \"answer\""
std::string renamed_note(const std::string& column, const std::string& theirs,
                         const std::string& keep);
// Returns true for the renamed_note of a column.
bool is_renamed_note(std::string_view note, const std::string& column);
// Returns the note on a column that is neither read nor kept.
std::string unused_note(const std::string& column);

struct MissingColumn {
  std::string why, fix;  // without capitals and full stops
};

// Returns why a column is not a field; both texts are "" if the notes do not tell.
MissingColumn missing_column(const Ledger& ledger, const std::string& column);

}  // namespace xrun

#pragma once
// Explains why a column of the data is not a field of batches and samples, by a ledger's notes.

#include <string>
#include <string_view>

#include "core/data/rows/ledger.h"

namespace xrun {

// The notes on rows of a column that `keep` names and the first row lacks: those without a value,
// and those whose value is left out.
std::string no_column_note(const std::string& column);
std::string left_out_note(const std::string& column);
// The note on a column that `keep` names by our name, where `fields` reads it from another one.
//   keep   the names that would keep it: "\"question\", \"answer\""
std::string renamed_note(const std::string& column, const std::string& theirs,
                         const std::string& keep);
// True for the renamed_note of a column.
bool is_renamed_note(std::string_view note, const std::string& column);
// The note on a column that is neither read nor kept.
std::string unused_note(const std::string& column);

struct MissingColumn {
  std::string why, fix;  // without capitals and full stops
};

// Returns why a column is not a field; both texts are "" if the ledger does not tell.
MissingColumn missing_column(const Ledger& ledger, const std::string& column);

}  // namespace xrun

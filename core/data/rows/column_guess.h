#pragma once
// Guesses for error messages: which columns of a row hold what the row lacks under our names.

#include <string>
#include <utility>
#include <vector>

#include "core/base/json.h"

namespace xrun {

using ColumnNames = std::vector<std::pair<std::string, std::string>>;  // (ours, the file's)

constexpr const char* kNoColumn = "...";  // the file's name in a guess that found no column

// Returns true if public data sets call our column `ours` by the name `theirs`: "prompt" is
// "question" in some.
bool is_other_name(const std::string& theirs, const std::string& ours);

// Returns true if the name says that the column describes where a row comes from and holds no text
// of it: "id", "lang", "source_url".
bool tells_origin(const std::string& column);

// Returns our names for the columns that public data sets use; other columns are left out.
std::vector<std::string> our_names(const std::vector<std::string>& columns);

// Returns the column of `unread` that is probably the one we call `ours`; "" if there is none or if
// several are as likely.
//   by_name   judge by the name alone: a usual name, a misspelling, or a word in it
//             ("better_answer")
std::string likely_column(const Json& row, const std::string& ours,
                          const std::vector<std::string>& unread, bool by_name = false);

// Returns a guess for each of our names in `lacking`, in their order, from the row's columns in
// `unread`. No column is guessed twice, and a null one only if no other fits.
ColumnNames guess_columns(const Json& row, const std::vector<std::string>& lacking,
                          const std::vector<std::string>& unread);

}  // namespace xrun

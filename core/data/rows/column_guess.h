#pragma once
// Guesses, for error messages, which columns of a row are meant by the names that the row lacks.

#include <string>
#include <utility>
#include <vector>

#include "core/base/json.h"

namespace xrun {

using ColumnNames = std::vector<std::pair<std::string, std::string>>;  // (ours, the file's)

constexpr const char* kNoColumn = "...";  // the file's name in a guess that found no column

// Returns true if public data sets use the name `theirs` for what we call `ours`: "question" for
// "prompt".
bool is_other_name(const std::string& theirs, const std::string& ours);

// Returns true if the name of a column says that it tells where a row is from, not what it says:
// "id", "lang", "source_url".
bool tells_origin(const std::string& column);

// Returns our name for each column that has a name of public data sets; other columns are left out.
std::vector<std::string> our_names(const std::vector<std::string>& columns);

// Returns the one column of `unread` that may be meant by our name; "" if there is none or if
// several are as likely.
//   by_name   only by its name: a usual one, a misspelling, or a word of it ("better_answer")
std::string likely_column(const Json& row, const std::string& ours,
                          const std::vector<std::string>& unread, bool by_name = false);

// Returns a guess for each of our names in `lacking`, in their order, from the row's columns in
// `unread`. A column is the guess for one name at most, and a null one only if no other fits.
ColumnNames guess_columns(const Json& row, const std::vector<std::string>& lacking,
                          const std::vector<std::string>& unread);

}  // namespace xrun

#pragma once
// The column names by which rows are recognised, for each kind.

#include <string>
#include <vector>

#include "core/data/rows/row.h"

namespace xrun {

// A set of columns by which a row is recognised; the row must have all of them.
struct RowFormat {
  RowKind kind;
  std::vector<std::string> columns;
};

const std::vector<RowFormat>& known_row_formats();

// Searches linearly: the lists have a dozen names.
bool has_name(const std::vector<std::string>& names, const std::string& name);

// In the functions below `columns` are those of a row that are not null.

// Returns true if all of a format's columns are among `columns`.
bool has_format(const RowFormat& format, const std::vector<std::string>& columns);

// Returns true if the row has any format of a kind.
bool has_any_format(RowKind kind, const std::vector<std::string>& columns);

// Returns the share of a format's columns that the row has; a misspelt one counts half.
double format_fit(const RowFormat& format, const std::vector<std::string>& columns);

// Returns the format of a kind of which the row has the most columns; the first one if it has none.
const RowFormat& nearest_format(RowKind kind, const std::vector<std::string>& columns);

// Returns the format of another kind that the row has, the one with the most columns; nullptr if
// there is none. Rows of any kind may have a "text" or a "prompt", so a format of a single column
// counts only if the row has no other column.
const RowFormat* other_format(RowKind kind, const std::vector<std::string>& columns);

}  // namespace xrun

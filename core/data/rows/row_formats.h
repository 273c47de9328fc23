#pragma once
// The column names of rows that are recognised, by kind.

#include <string>
#include <vector>

#include "core/data/rows/row.h"

namespace xrun {

// A spelling of rows that is recognised. All columns are needed.
struct RowFormat {
  RowKind kind;
  std::vector<std::string> columns;
};

const std::vector<RowFormat>& known_row_formats();

// Linear: a row's formats have a dozen names.
bool has_name(const std::vector<std::string>& names, const std::string& name);

// Returns true if all of a format's columns are among those of a row, which the caller gives
// without nulls.
bool has_format(const RowFormat& format, const std::vector<std::string>& columns);

// Returns true if the columns have any format of a kind.
bool has_any_format(RowKind kind, const std::vector<std::string>& columns);

// Returns the share of a format's columns that the row has; a misspelt one counts half.
double format_fit(const RowFormat& format, const std::vector<std::string>& columns);

// Returns the format of a kind of which the row has most columns; the first one if it has none.
const RowFormat& nearest_format(RowKind kind, const std::vector<std::string>& columns);

// Returns the format of another kind with the most columns, all of them in the row; nullptr without
// one. A single column proves little, since rows of any kind may have a "text" or a "prompt": such
// a format counts only if the row has no other column.
const RowFormat* other_format(RowKind kind, const std::vector<std::string>& columns);

}  // namespace xrun

#pragma once
// The columns by which rows of public sets are recognised.

#include <string>
#include <vector>

#include "core/data/rows/row_kind.h"

namespace xrun {

// A spelling of rows that is recognised, and who reads it.
struct RowFormat {
  RowKind kind;
  std::vector<std::string> columns;  // all of them are needed
};
const std::vector<RowFormat>& known_row_formats();

}  // namespace xrun

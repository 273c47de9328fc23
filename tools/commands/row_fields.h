#pragma once
// Fields of JSON rows, and numbers of the rows that a command writes.

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "tools/commands/row_stream.h"

namespace xrun {

// Parses a line of a reader. Throws Error that names file, line and column.
Json parse_row(const std::string& line, const RowReader& rows);
// These return a field of a row, "text" or the named one. They throw Error that names the row if
// the field is missing or has another type.
std::string text_field(const Json& row, const RowReader& rows);
std::vector<int32_t> ids_field(const Json& row, const RowReader& rows, const char* name);

void append_number(std::string& out, int64_t value);
// Appends "[1,2]".
void append_ids(std::string& out, const std::vector<int32_t>& ids);

}  // namespace xrun

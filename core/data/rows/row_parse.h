#pragma once
// Parses the text of a row as a JSON value and repairs what is not Unicode.

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/json.h"
#include "core/data/rows/row.h"

namespace xrun {

// The most JSON values in one row. Each takes about 64 bytes in memory, however short it is in the
// file.
constexpr size_t kMaxRowValues = size_t{8} << 20;

// Returns the row's value; a row of plain text is {"text": ...} with line ends "\n". Adds to
// `repairs` the number of pieces of invalid UTF-8 and of halves of surrogate pairs that became
// U+FFFD. `location` is "pairs.jsonl:17". Throws RowRefusal
//   malformed_json  "pairs.jsonl:17:5: is not valid JSON: ..."
//   too_long        more than kMaxRowValues values
Json parse_row(const RawRow& row, const std::string& location, int64_t& repairs);

// Returns `text` with each \u escape of half a surrogate pair replaced by \ufffd, and adds their
// number to `repairs`.
std::string repair_surrogate_escapes(std::string_view text, int64_t& repairs);

// Returns the fix for a .jsonl file (also .gz, .zst) of which no row could be read: "; the file is
// one array of rows: ...". It recognises arrays, objects over several lines, Python dicts, CSV, and
// compressed data under a plain name; "" for any other file and for one that cannot be read. Throws
// Interrupted.
std::string row_form_hint(const std::string& path);

}  // namespace xrun

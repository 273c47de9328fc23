#pragma once
// The text of a row as a JSON value, repaired where it is not Unicode.

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/json.h"
#include "core/data/rows/row.h"

namespace xrun {

// The most JSON values in one row: each takes about 64 bytes in memory, however few in the file.
constexpr size_t kMaxRowValues = size_t{8} << 20;

// Returns the row's value; a row of plain text is {"text": ...} with line ends "\n". Adds to
// `repairs` each piece of invalid UTF-8 and each half of a surrogate pair that became U+FFFD.
// Throws RowRefusal malformed_json, "pairs.jsonl:17:5: is not valid JSON: ...", where `location` is
// "pairs.jsonl:17", and too_long for more than kMaxRowValues values.
Json parse_row(const RawRow& row, const std::string& location, int64_t& repairs);

// Returns `text` with each \u escape of half a surrogate pair replaced by \ufffd, and adds their
// number to `repairs`.
std::string repair_surrogate_escapes(std::string_view text, int64_t& repairs);

// Returns the fix for a .jsonl file (or .gz, .zst of one) without a row that could be read: "; the
// file is one array, ..." for an array, for objects over several lines and for compressed data
// under a plain name; "" for any other file and for one that cannot be read. Throws Interrupted.
std::string row_form_hint(const std::string& path);

}  // namespace xrun

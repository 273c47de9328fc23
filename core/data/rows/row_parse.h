#pragma once
// A row's text as a JSON value, repaired where it is not Unicode.

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/json.h"
#include "core/data/rows/row_type.h"

namespace xrun {

// Values that a row of JSON may have: as a tree, lists and objects with their numbers and strings
// take some 64 bytes each, however few the file spends on them.
constexpr size_t kMaxRowValues = size_t{8} << 20;

// Returns the row's value; a row of plain text is {"text": ...} with line ends "\n". Adds to
// `repairs` each piece of invalid UTF-8 and each half of a surrogate pair that became U+FFFD.
// Throws RowRefusal malformed_json, "pairs.jsonl:17:5: is not valid JSON: ...", where `place` is
// "pairs.jsonl:17", and too_long for more than kMaxRowValues values.
Json parse_row(const RawRow& row, const std::string& place, int64_t& repairs);

// Returns `text` with each \u escape of half a surrogate pair replaced by \ufffd, and adds their
// number to `repairs`.
std::string repair_surrogate_escapes(std::string_view text, int64_t& repairs);

}  // namespace xrun

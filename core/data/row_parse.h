#pragma once
// A row's text as a JSON value, repaired where it is not Unicode.

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/json.h"
#include "core/data/row_type.h"

namespace xrun {

// Returns the row's value; a row of plain text is {"text": ...} with line ends "\n". Adds to
// `repairs` each piece of invalid UTF-8 and each half of a surrogate pair that became U+FFFD.
// Throws RowRefusal malformed_json, "pairs.jsonl:17:5: is not valid JSON: ...", where `place` is
// "pairs.jsonl:17".
Json parse_row(const RawRow& row, const std::string& place, int64_t& repairs);

// Returns `text` with each \u escape of half a surrogate pair replaced by \ufffd, and adds their
// number to `repairs`.
std::string repair_surrogate_escapes(std::string_view text, int64_t& repairs);

}  // namespace xrun

#pragma once
// The position at which a text stops being JSON: simdjson's DOM reports no position.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace xrun {

constexpr int kMaxJsonDepth = 512;

struct JsonFault {
  size_t at;  // bytes before it
  std::string message;
};

// Returns the first byte that breaks the grammar of RFC 8259, nests deeper than kMaxJsonDepth or
// spells what no value here holds (half a surrogate pair, a number out of range); nullopt if there
// is none.
std::optional<JsonFault> find_json_fault(std::string_view text);

// Returns the code unit of the escape "\uXXXX" at text[at], or -1 if none stands there.
int json_escape_unit(std::string_view text, size_t at);

}  // namespace xrun

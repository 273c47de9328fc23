#pragma once
// The position of an error in a JSON text.

#include <cstdint>
#include <string_view>

namespace xrun {

inline constexpr int kMaxJsonDepth = 512;

// Throws Error "name:line:column: is not valid JSON: message" for a text that the parser has
// refused; `first_line` and `column` as in parse_json. If the grammar accepts the text, the message
// is `otherwise` and the position its beginning.
[[noreturn]] void report_json_fault(std::string_view text, std::string_view name,
                                    int64_t first_line, uint64_t column, const char* otherwise);

}  // namespace xrun

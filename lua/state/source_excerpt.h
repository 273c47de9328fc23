#pragma once
// The excerpt below an error: the source line, a mark under the failed part, the values on it.

#include <optional>

#include "core/config/lua_source.h"
#include "lua/state/error_report.h"

namespace xrun {

// Sets mark_begin and mark_end: under the failed operation's name or operator, under the name that
// Lua's own message quotes, or under the whole statement.
void mark_source(ErrorReport& report);

// The name of an operation in messages: "Tensor:matmul", "`+`", "" for reads of names.
std::string display_name(std::string_view operation);

// Returns the line in [first, last] of a source (last 0: to the end) that returns a call of the
// operation, if there is exactly one: a call in tail position leaves no frame to ask.
std::optional<int> tail_call_line(std::string_view text, int first, int last,
                                  std::string_view operation);

// Returns the values of the locals and upvalues of the frame at `level` (-1: no frame) that the
// line names, each as "x = f32[2,3] cpu", then the operands (stack slots 1..arguments) without a
// name.
std::vector<std::string> values_on_line(lua_State* L, int level, std::string_view source_line,
                                        int arguments);

}  // namespace xrun

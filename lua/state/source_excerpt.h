#pragma once
// The excerpt below an error: the source line, a mark under what failed, the values named on it.

#include <optional>

#include "core/config/excerpt.h"
#include "lua/state/error_report.h"

namespace xrun {

// Sets mark_begin and mark_end: under the failed operation's name or operator, under the name that
// Lua's own message quotes, or under the whole statement.
void mark_source(ErrorReport& report);

// The name of an operation in messages: "Tensor:matmul", "`+`", "" for reads of names.
std::string display_name(std::string_view operation);

// A call in tail position leaves no frame behind. The line among [first, last] of a text (last 0:
// to the end) that returns a call of the operation, if there is exactly one.
std::optional<int> tail_call_line(std::string_view text, int first, int last,
                                  std::string_view operation);

// What the locals and upvalues of the frame at `level` (-1: no frame) hold that the line names,
// each as "x = f32[2,3] cpu", then those operands (stack slots 1..arguments) that no name stands
// for.
std::vector<std::string> values_on_line(lua_State* L, int level, std::string_view source_line,
                                        int arguments);

}  // namespace xrun

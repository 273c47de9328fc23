#pragma once
// The excerpt below an error: the source line, a mark under what failed, the values named on it.

#include "lua/bind/error_report.h"

namespace xrun {

// Line number `line` (1-based) of a text without its newline, or "".
std::string_view line_of(std::string_view text, int line);

// "\n   22 |   local y = x:matmul(w)\n      |             ^^^^^^", or "" for an empty line.
std::string excerpt_text(const std::string& source_line, int line, int mark_begin, int mark_end);

// Sets mark_begin and mark_end: under the failed operation's name or operator, under the name that
// Lua's own message quotes, or under the whole statement.
void mark_source(ErrorReport& report);

// What the locals and upvalues of the frame at `level` (-1: no frame) hold that the line names,
// each as "x = f32[2,3] cpu", then those operands (stack slots 1..arguments) that no name stands for.
std::vector<std::string> values_on_line(lua_State* L, int level, std::string_view source_line,
                                        int arguments);

}  // namespace xrun

#pragma once
// Results of a prompt's verbs: tables that print as text.

#include <lua.hpp>
#include <string>
#include <vector>

#include "core/train/worst_rows.h"

namespace xrun {

// Makes tostring of the table on top of the stack this text.
void show_as(lua_State* L, std::string text);

// Pushes a list of { value, row, text, rejected }, shown as a table under a line.
void push_rows(lua_State* L, const std::vector<WorstRow>& rows, const std::string& title);

}  // namespace xrun

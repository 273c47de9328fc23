#include "lua/prompt/shown_table.h"

#include <algorithm>

#include "core/console/terminal/progress.h"
#include "core/console/terminal/shown_text.h"
#include "core/console/terminal/table.h"
#include "lua/state/args.h"
#include "lua/bind/session.h"

namespace xrun {

namespace {

int push_shown(lua_State* L) {
  lua_pushvalue(L, lua_upvalueindex(1));
  return 1;
}

// The start of the first word in which two answers differ; 0 if it is near the start or they are equal.
size_t differing_word(const std::string& a, const std::string& b) {
  constexpr size_t kNear = 12;
  const auto part = std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first;
  const size_t same = static_cast<size_t>(part - a.begin());
  if (same == a.size() && same == b.size()) return 0;
  const size_t blank = same == 0 ? std::string::npos : a.rfind(' ', same - 1);
  return blank == std::string::npos || blank < kNear ? 0 : blank + 1;
}

// An answer from the first difference on, so that a narrow table shows it.
std::string part_shown(const std::string& text, size_t from) {
  return (from == 0 ? "" : "…") + shown_text(text.substr(from), Blanks::kBreaksMarked);
}

}  // namespace

void show_as(lua_State* L, std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  lua_newtable(L);
  push(L, text);
  lua_pushcclosure(L, push_shown, 1);
  lua_setfield(L, -2, "__tostring");
  lua_setmetatable(L, -2);
}

void push_rows(lua_State* L, const std::vector<WorstRow>& rows, const std::string& title) {
  lua_createtable(L, static_cast<int>(rows.size()), 0);
  TextTable table({"value", "row", "text"}, {Align::kRight, Align::kLeft, Align::kLeft});
  int i = 0;
  for (const WorstRow& row : rows) {
    lua_createtable(L, 0, 4);
    push(L, row.value);
    lua_setfield(L, -2, "value");
    push(L, row.location);
    lua_setfield(L, -2, "row");
    push(L, row.text);
    lua_setfield(L, -2, "text");
    push(L, row.rejected);
    lua_setfield(L, -2, "rejected");
    lua_rawseti(L, -2, ++i);
    const bool pair = !row.rejected.empty();
    const size_t from = pair ? differing_word(row.text, row.rejected) : 0;
    table.add({format_metric(row.value), shown_text(row.location),
               (pair ? "+ " : "") + part_shown(row.text, from)});
    if (pair) table.add({"", "", "- " + part_shown(row.rejected, from)});
  }
  const int width = session_of(L).console->traits().width;
  show_as(L, title + "\n" + table.text(width));
}

}  // namespace xrun

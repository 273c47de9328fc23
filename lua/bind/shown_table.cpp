#include "lua/bind/shown_table.h"

#include "core/console/progress.h"
#include "core/console/shown_text.h"
#include "core/console/table.h"
#include "lua/bind/args.h"
#include "lua/bind/session.h"

namespace xrun {

namespace {

int push_shown(lua_State* L) {
  lua_pushvalue(L, lua_upvalueindex(1));
  return 1;
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

void push_rows(lua_State* L, const std::vector<ExtremeRow>& rows, const std::string& title) {
  lua_createtable(L, static_cast<int>(rows.size()), 0);
  TextTable table({"value", "row", "text"}, {Align::kRight, Align::kLeft, Align::kLeft});
  int i = 0;
  for (const ExtremeRow& row : rows) {
    lua_createtable(L, 0, 3);
    push(L, row.value);
    lua_setfield(L, -2, "value");
    push(L, row.place);
    lua_setfield(L, -2, "place");
    push(L, row.text);
    lua_setfield(L, -2, "text");
    push(L, row.rejected);
    lua_setfield(L, -2, "rejected");
    lua_rawseti(L, -2, ++i);
    const bool pair = !row.rejected.empty();
    const auto shown = [](const std::string& text) {
      return shown_text(text, Blanks::kBreaksMarked);
    };
    table.add(
        {format_metric(row.value), shown_text(row.place), (pair ? "+ " : "") + shown(row.text)});
    if (pair) table.add({"", "", "- " + shown(row.rejected)});
  }
  const int width = session_of(L).console->traits().width;
  show_as(L, title + "\n" + table.text(width));
}

}  // namespace xrun

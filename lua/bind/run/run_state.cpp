// A bad new value is rejected at its line; nested values are checked when the body ends.

#include "lua/bind/run/run_state.h"

#include <memory>

#include "core/base/json.h"
#include "lua/state/args.h"
#include "lua/state/lua_state.h"
#include "lua/state/metatable.h"

namespace xrun {

namespace {

// Lua calls it for new names only, so a bad value is rejected at its line. New values of old names
// and nested tables are checked when the body ends.
int set_state(lua_State* L) {
  check_metamethod_table(L);
  check_state_value(L, 3, lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "");
  lua_rawset(L, 1);
  return 0;
}

// run.state: a plain table with the saved values.
std::shared_ptr<LuaRef> push_state(lua_State* L, const Json& saved) {
  const StackGuard guard(L);
  push(L, saved.is_object() ? saved : Json::object());
  lua_newtable(L);
  push_function(L,
                {"Run.state.__newindex",
                 DocKind::kMetamethod,
                 {{"name", "string"}, {"value", "any"}},
                 {},
                 "Refuses what cannot be saved."},
                set_state);
  lua_setfield(L, -2, "__newindex");
  set_hidden_metatable(L);
  return std::make_shared<LuaRef>(L, lua_gettop(L));
}

// Replaces the contents of the table at index i by the saved values.
void fill_state(lua_State* L, int i, const Json& saved) {
  push(L, saved.is_object() ? saved : Json::object());
  const int source = lua_gettop(L);
  for (lua_pushnil(L); lua_next(L, i) != 0;) {
    lua_pop(L, 1);
    lua_pushvalue(L, -1);
    lua_pushnil(L);
    lua_rawset(L, i);  // a field that is walked over may be cleared
  }
  for (lua_pushnil(L); lua_next(L, source) != 0;) {
    lua_pushvalue(L, -2);
    lua_insert(L, -2);
    lua_rawset(L, i);
  }
}

}  // namespace

void tie_state(lua_State* L, RunLoop& loop) {
  LuaState& owner = LuaState::of(L);
  loop.state_ref = push_state(L, loop.run().state());
  loop.read_state = [&owner, state = loop.state_ref] {
    const StackGuard guard(owner);
    state->push(owner);
    return state_to_json(owner, lua_gettop(owner));
  };
  loop.write_state = [&owner, state = loop.state_ref](const Json& saved) {
    const StackGuard guard(owner);
    state->push(owner);
    fill_state(owner, lua_gettop(owner), saved);
  };
}

}  // namespace xrun

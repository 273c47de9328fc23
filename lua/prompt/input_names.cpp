// The globals of an input are an empty table. Its metatable looks a name up in the frame, the
// prompt's own names, the verbs and the globals, in this order; but a verb hides the frame's name,
// also from assignments.

#include "lua/prompt/input_names.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/strings.h"
#include "lua/bind/modules.h"
#include "lua/state/args.h"
#include "lua/state/class.h"
#include "lua/state/doc.h"

namespace xrun {
namespace {

// Pushes table[name] and returns true; false, with nothing pushed, if it is nil.
bool push_field(lua_State* L, const LuaRef& table, const std::string& name) {
  table.push(L);
  push(L, name);
  lua_rawget(L, -2);
  lua_remove(L, -2);
  if (!lua_isnil(L, -1)) return true;
  lua_pop(L, 1);
  return false;
}

bool is_verb(lua_State* L, const InputNames& input, const std::string& name) {
  if (!push_field(L, input.verbs, name)) return false;
  lua_pop(L, 1);
  return true;
}

bool push_global(lua_State* L, const std::string& name) {
  push(L, name);
  lua_rawget(L, LUA_GLOBALSINDEX);
  if (!lua_isnil(L, -1)) return true;
  lua_pop(L, 1);
  return false;
}

// Called for every name, since the table of globals itself stays empty.
int read_name(lua_State* L) {
  InputNames& input = input_names(LuaState::of(L));
  const std::string name = arg<std::string>(L, 2, "name");
  if (push_input_name(L, input, name)) return 1;
  // A name that was set to nil is known, as in `local x`.
  input.own.push(L);
  push(L, "\1" + name);
  lua_rawget(L, -2);
  if (lua_toboolean(L, -1) != 0) return lua_pushnil(L), 1;
  throw Error(fmt::format("`{}` is not defined{}", name, [&]() -> std::string {
    if (name == "help") return "\nhint: :help lists the commands";
    if (find_doc("repl." + name) != nullptr) {
      return "\nhint: it is a verb of an open recipe: xrun repl RECIPE.lua";
    }
    if (const std::string python = python_module_hint(L, name); !python.empty()) {
      return "\nhint: " + python;
    }
    const std::string near = nearest_name(name, all_input_names(L, input));
    return near.empty() ? "" : "\nhint: did you mean `" + near + "`?";
  }()));
}

int write_name(lua_State* L) {
  const std::string name = arg<std::string>(L, 2, "name");
  lua_settop(L, 3);
  assign_input_name(L, input_names(LuaState::of(L)), name);
  return 0;
}

void add_access(lua_State* L, const char* event, const char* doc, lua_CFunction function) {
  push_function(L,
                {.name = std::string("repl.") + event,
                 .kind = DocKind::kMetamethod,
                 .parameters = {{"name", "string"}},
                 .doc = doc},
                function);
  lua_setfield(L, -2, event);
}

LuaRef new_table(lua_State* L) {
  lua_newtable(L);
  LuaRef table(L, -1);
  lua_pop(L, 1);
  return table;
}

}  // namespace

// Made at the first use, so that states without a prompt have none.
InputNames& input_names(LuaState& state) {
  auto& input = state.service<InputNames>();
  if (input.globals) return input;
  lua_State* L = state;
  const StackGuard guard(L);
  input.own = new_table(L);
  input.verbs = new_table(L);
  input.globals = new_table(L);
  input.globals.push(L);
  lua_newtable(L);
  add_access(L, "__index", "Finds the value of a name at the prompt.", read_name);
  add_access(L, "__newindex", "Sets a name of the suspended frame or of the prompt.", write_name);
  lua_setmetatable(L, -2);
  return input;
}

bool push_input_name(lua_State* L, InputNames& input, const std::string& name) {
  luaL_checkstack(L, 4, "no room for a name");
  // Inside a body the frame has its own `step` and `batch`; the verbs keep their names.
  if (!is_verb(L, input, name) && input.frame != nullptr && input.frame->read(L, name)) return true;
  return push_field(L, input.own, name) || push_field(L, input.verbs, name) || push_global(L, name);
}

void assign_input_name(lua_State* L, InputNames& input, const std::string& name) {
  if (is_verb(L, input, name)) {
    const bool local = input.frame != nullptr && input.frame->read(L, name);
    // read() has pushed the local's value.
    lua_pop(L, local ? 2 : 1);
    throw Error(
        fmt::format("`{}` is a verb of the prompt and cannot be assigned{}\nhint: use "
                    "another name",
                    name, local ? "; the recipe's local of that name is unchanged" : ""));
  }
  // A local or upvalue of the recipe.
  if (input.frame != nullptr && input.frame->write(L, name)) return;
  // The mark stays when the name is set to nil; see read_name.
  input.own.push(L);
  push(L, "\1" + name);
  lua_pushboolean(L, 1);
  lua_rawset(L, -3);
  push(L, name);
  lua_pushvalue(L, -3);
  lua_rawset(L, -3);
  lua_pop(L, 2);
}

// Lists each name once, for completion and hints.
std::vector<std::string> all_input_names(lua_State* L, InputNames& input) {
  const StackGuard guard(L);
  std::vector<std::string> names;
  if (input.frame != nullptr) names = input.frame->names();
  input.own.push(L);
  add_names(L, lua_gettop(L), names);
  input.verbs.push(L);
  add_names(L, lua_gettop(L), names);
  lua_pushvalue(L, LUA_GLOBALSINDEX);
  add_names(L, lua_gettop(L), names);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace xrun

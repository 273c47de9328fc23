// A chunk of Lua builds the modules, `require` and the guard of missing names; the registry keeps
// the modules for load_copy.

#include "lua/state/call_worker_state.h"

#include <string_view>

#include "core/base/error.h"
#include "lua/state/args.h"
#include "lua/state/builtin_modules.h"
#include "lua/state/metatable.h"

namespace xrun {

namespace {

// Takes the modules by name and a function that raises for a missing name. Returns the modules by
// full name, `require`, and a metamethod for missing names.
constexpr std::string_view kModulesAndLibraries = R"(
local modules, refuse = ...
local function missing(_, name) refuse(name) end
local strict = { __index = missing, __newindex = missing, __metatable = false }
local xrun = {}
for name, module in pairs(modules) do
  xrun[name] = type(module) == "table" and setmetatable(module, strict) or module
end
setmetatable(xrun, strict)
local loaded = { xrun = xrun }
for name, module in pairs(modules) do loaded["xrun." .. name] = module end
return loaded, function(name)
  if loaded[name] == nil then refuse(name) end
  return loaded[name]
end, missing
)";

int refuse_name(lua_State* L) {
  note_worker_refusal(L);
  throw Error(fmt::format("there is no `{}` in a worker state", describe_value(L, 1)));
}

// Pushes a table of the modules of lua/xrun. One that cannot be loaded here is left out.
void push_builtin_modules(lua_State* L) {
  lua_newtable(L);
  for (const BuiltinModule& module : builtin_modules()) {
    const StackGuard guard(L);
    const std::string chunk = "=xrun." + std::string(module.name);
    push_builtin_text(L, module.text, chunk);
    try {
      protected_call(L, 0, 1);
    } catch (const Error&) {
      continue;
    }
    lua_setfield(L, -2, std::string(module.name).c_str());
  }
}

// Makes Lua's libraries call the function on top of the stack for missing names. The globals are
// empty tables whose __index is the library, so the libraries themselves get the guard. This is C++
// because the metatables of an untrusted recipe's libraries refuse Lua's setmetatable.
void guard_libraries(lua_State* L) {
  const StackGuard guard(L);
  const int missing = lua_gettop(L);
  for (const char* name : {"string", "table", "math", "bit"}) {
    lua_getglobal(L, name);
    if (luaL_getmetafield(L, -1, "__index") == 0) continue;
    lua_newtable(L);
    lua_pushvalue(L, missing);
    lua_setfield(L, -2, "__index");
    set_hidden_metatable(L);
  }
}

// registry[&kLoadedKey] = { ["xrun"] = ..., ["xrun.rewards"] = ... } of a worker
const char kLoadedKey = 0;

}  // namespace

std::unique_ptr<LuaState> open_call_worker(const LuaState& recipe) {
  std::unique_ptr<LuaState> state = open_worker_state();
  // A body with an update in it ends before an interruption is answered, as in the recipe's state.
  state->may_interrupt = [&recipe] { return !recipe.may_interrupt || recipe.may_interrupt(); };
  lua_State* L = *state;
  const StackGuard guard(L);
  push_builtin_text(L, kModulesAndLibraries, "=worker");
  push_builtin_modules(L);
  push_function(L,
                {.name = "worker.refuse",
                 .kind = DocKind::kMetamethod,
                 .parameters = {{"name", "string"}},
                 .doc = "Raises on names that a worker state lacks."},
                refuse_name);
  // The results: modules, require, missing.
  protected_call(L, 2, 3);
  guard_libraries(L);
  lua_pop(L, 1);
  lua_pushliteral(L, "require");
  lua_insert(L, -2);
  lua_rawset(L, LUA_GLOBALSINDEX);
  lua_pushlightuserdata(L, const_cast<char*>(&kLoadedKey));
  lua_insert(L, -2);
  lua_rawset(L, LUA_REGISTRYINDEX);
  // Lines that workers print would come in the order in which threads happen to run.
  lua_pushnil(L);
  lua_setglobal(L, "print");
  take_worker_refusal(L);  // of a module that could not be loaded
  return state;
}

LuaRef load_copy(lua_State* L, const WorkerFunction& code,
                 const std::vector<std::string>& modules) {
  const StackGuard guard(L);
  code.push(L);
  const int function = lua_gettop(L);
  lua_pushlightuserdata(L, const_cast<char*>(&kLoadedKey));
  lua_rawget(L, LUA_REGISTRYINDEX);
  for (size_t n = 0; n < modules.size(); ++n) {
    lua_getfield(L, -1, modules[n].c_str());
    lua_setupvalue(L, function, static_cast<int>(n) + 1);
  }
  return LuaRef(L, function);
}

}  // namespace xrun

// A file of lua/xrun begins with its name and its doc as comments,
//   -- xrun.sorted_pairs(table) -> iterator
//   -- Goes through a table in the order of its keys.
// and returns one value, which is xrun.NAME and require "xrun.NAME".

#include "lua/bind/lua_modules.h"

#include "core/base/error.h"
#include "core/base/suggest.h"
#include "lua/bind/modules.h"
#include "lua/state/args.h"

namespace xrun {
namespace {

DocEntry read_doc(const LuaModuleText& module) {
  DocEntry entry{.name = "xrun." + std::string(module.name), .kind = DocKind::kFunction};
  std::string_view rest = module.text;
  const std::string head = "-- " + entry.name;
  XRUN_CHECK(rest.starts_with(head), "lua/xrun/{}.lua does not begin with `{}(...)`", module.name,
             head);
  bool first = true;
  while (rest.starts_with("-- ")) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    if (first) {
      entry.parameters = {{"table", "table"}};
      entry.results = {"fun(): any, any"};
    } else {
      entry.doc += (entry.doc.empty() ? "" : " ") + std::string(line.substr(3));
    }
    first = false;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return entry;
}

}  // namespace

const std::vector<LuaModuleText>& lua_module_texts() {
  static const std::vector<LuaModuleText> modules = {
#if __has_include("lua_modules.inc")
#include "lua_modules.inc"
#endif
  };
  return modules;
}

void push_lua_module(lua_State* L, const std::string& name) {
  const int top = lua_gettop(L);
  const std::string key = "xrun." + name;
  lua_getfield(L, LUA_REGISTRYINDEX, "_LOADED");
  lua_getfield(L, -1, key.c_str());
  if (lua_isnil(L, -1)) {
    std::vector<std::string> known;
    const LuaModuleText* module = nullptr;
    for (const LuaModuleText& one : lua_module_texts()) {
      known.emplace_back(one.name);
      if (one.name == name) module = &one;
    }
    const std::string near = nearest_name(name, known);
    XRUN_CHECK(module != nullptr, "there is no module `{}`{}", key,
               near.empty() ? "" : "\nhint: did you mean `xrun." + near + "`?");
    lua_pop(L, 1);
    // A chunk name with = is no file of the user's: errors point at the recipe's line instead.
    if (luaL_loadbuffer(L, module->text.data(), module->text.size(), ("=" + key).c_str()) != 0) {
      throw LuaError(report_of(L, -1));
    }
    LuaState::of(L).push_module(L);
    protected_call(L, 1, 1);
    lua_pushvalue(L, -1);
    lua_setfield(L, top + 1, key.c_str());
  }
  lua_replace(L, top + 1);
  lua_settop(L, top + 1);
}

void open_lua_modules(LuaState& state) {
  lua_State* L = state;
  const StackGuard guard(L);
  for (const LuaModuleText& module : lua_module_texts()) {
    register_doc(read_doc(module));
    state.push_module(L);
    push(L, module.name);
    push_lua_module(L, std::string(module.name));
    lua_rawset(L, -3);
  }
}

}  // namespace xrun

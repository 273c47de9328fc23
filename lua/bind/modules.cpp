// The list of modules, and globals that raise on names that nobody defined.

#include "lua/bind/modules.h"

#include "core/base/error.h"
#include "core/base/file_access.h"
#include "core/base/strings.h"
#include "lua/state/allowed_globals.h"
#include "lua/state/args.h"
#include "lua/state/metatable.h"

namespace xrun {

const std::vector<OpenModule>& engine_modules() {
  static const std::vector<OpenModule> modules = {
      open_tensor, open_config,    open_metrics,  open_view,           open_policy,
      open_scorer, open_frozen,    open_kd,       open_data_sets,      open_tokenizer,
      open_align,  open_template,  open_shuffle,  open_mixture,        open_pack,
      open_fold,   open_advantage, open_rollouts, open_rollout_source, open_adamw,
      open_ema,    open_run,
  };
  return modules;
}

namespace {

std::string near_global(lua_State* L, const std::string& name) {
  std::vector<std::string> known;
  lua_pushnil(L);
  while (lua_next(L, 1) != 0) {
    lua_pop(L, 1);
    if (lua_type(L, -1) == LUA_TSTRING) known.emplace_back(lua_tostring(L, -1));
  }
  return nearest_name(name, known);
}

int read_undefined(lua_State* L) {
  check_metamethod_table(L);
  const std::string name =
      lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : describe_value(L, 2);
  if (name == "xrun") {
    throw Error("`xrun` is not defined\nhint: begin with local xrun = require \"xrun\"");
  }
  if (file_access_limited()) {
    const std::string removed = removed_global_text(name);
    if (!removed.empty()) throw Error(removed);
  }
  const std::string near = near_global(L, name);
  throw Error(fmt::format("`{}` is not defined{}", name,
                          near.empty() ? "" : "\nhint: did you mean `" + near + "`?"));
}

int write_undefined(lua_State* L) {
  if (lua_type(L, 2) != LUA_TSTRING) {
    throw Error(fmt::format("{} is not a valid name of a global", describe_value(L, 2)));
  }
  throw Error(fmt::format("`{}` is not declared\nhint: write local {} = ... where it begins",
                          lua_tostring(L, 2), lua_tostring(L, 2)));
}

}  // namespace

void open_strict_globals(LuaState& state) {
  lua_State* L = state;
  const StackGuard guard(L);
  lua_pushvalue(L, LUA_GLOBALSINDEX);
  lua_newtable(L);
  const auto add = [&](const char* event, lua_CFunction function) {
    push_function(L,
                  {.name = std::string("_G.") + event,
                   .kind = DocKind::kMetamethod,
                   .parameters = {{"name", "string"}},
                   .doc = "Raises on names that are not defined."},
                  function);
    lua_setfield(L, -2, event);
  };
  add("__index", read_undefined);
  add("__newindex", write_undefined);
  set_hidden_metatable(L);
}

}  // namespace xrun

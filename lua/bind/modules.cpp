// The list of modules, and the guard of globals: undefined names raise an error.

#include "lua/bind/modules.h"

#include <algorithm>
#include <iterator>

#include "core/base/error.h"
#include "core/base/file_access.h"
#include "core/base/strings.h"
#include "core/config/lua_lexer.h"
#include "lua/state/allowed_globals.h"
#include "lua/state/args.h"
#include "lua/state/metatable.h"
#include "lua/state/source_texts.h"
#include "lua/tensor/op_table.h"

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

// Returns "sign" if the running line has `torch.sign` or `torch.nn.functional.sign`, else "".
std::string member_on_line(lua_State* L, const std::string& module) {
  lua_Debug frame{};
  if (lua_getstack(L, 1, &frame) == 0) return "";
  lua_getinfo(L, "Sl", &frame);
  const std::vector<LuaToken> tokens = lex_lua(source_line(L, frame.source, frame.currentline));
  std::string member;
  for (size_t i = 0; i + 2 < tokens.size(); ++i) {
    if (!is_name(tokens[i], module)) continue;
    for (; i + 2 < tokens.size() && is_sign(tokens[i + 1], "."); i += 2) {
      member = tokens[i + 2].text;
    }
    return member;
  }
  return "";
}

}  // namespace

std::string python_module_hint(lua_State* L, const std::string& name) {
  constexpr std::string_view kModules[] = {"torch", "F", "nn", "np", "numpy"};
  if (std::find(std::begin(kModules), std::end(kModules), name) == std::end(kModules)) return "";
  const std::string member = member_on_line(L, name);
  const StackGuard guard(L);
  LuaState::of(L).push_module(L);
  push(L, member);
  lua_rawget(L, -2);
  if (!lua_isnil(L, -1)) return fmt::format("here it is xrun.{}", member);
  const std::string op =
      find_public_op(member) != nullptr ? member : nearest_name(member, public_op_names());
  if (member.empty() || op.empty()) {
    return fmt::format("there is no {} here; tensors have its functions as methods, as x:exp()",
                       name);
  }
  return fmt::format("here it is xrun.{0}(x), or the method x:{0}()", op);
}

namespace {

int read_undefined(lua_State* L) {
  check_metamethod_table(L);
  const std::string name =
      lua_type(L, 2) == LUA_TSTRING ? read_string(L, 2, nullptr) : describe_value(L, 2);
  if (name == "xrun") {
    throw Error("`xrun` is not defined\nhint: begin with local xrun = require \"xrun\"");
  }
  if (file_access_limited()) {
    const std::string removed = removed_global_text(name);
    if (!removed.empty()) throw Error(removed);
  }
  if (const std::string hint = python_module_hint(L, name); !hint.empty()) {
    throw Error(fmt::format("`{}` is not defined\nhint: {}", name, hint));
  }
  const std::string near = near_global(L, name);
  throw Error(fmt::format("`{}` is not defined{}", name,
                          near.empty() ? "" : "\nhint: did you mean `" + near + "`?"));
}

int write_undefined(lua_State* L) {
  if (lua_type(L, 2) != LUA_TSTRING) {
    throw Error(fmt::format("{} is not a valid name of a global", describe_value(L, 2)));
  }
  throw Error(fmt::format("`{0}` is not declared\nhint: write local {0} = ... where it begins",
                          read_string(L, 2, nullptr)));
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

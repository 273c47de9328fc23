// xrun.config returns the config resolved from the recipe's text as plain tables, on which pairs
// and # work. Reading a key that is neither in them nor the engine's raises an error, and so does
// adding a key. Lua cannot guard an existing key, so the tables are compared with the config when a
// run begins and after each body.

#include <algorithm>

#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/config/config_field.h"
#include "core/config/unread_settings.h"
#include "lua/bind/modules.h"
#include "lua/bind/session.h"
#include "lua/state/args.h"
#include "lua/state/metatable.h"

namespace xrun {
namespace {

// The table that xrun.config returned.
struct ConfigTable {
  LuaRef table;
  std::vector<std::string> kept;  // keys that a prompt has changed
};

// Pushes a metamethod for a table of the config; its n upvalues are on the stack.
void push_guard(lua_State* L, const char* name, lua_CFunction function, int n = 0) {
  push_function(L,
                {.name = name,
                 .kind = DocKind::kMetamethod,
                 .parameters = {{"name", "string"}},
                 .doc = "Guards the config's names."},
                function, n);
}

// upvalue 2: the path of the table ("" for the config itself)
int missing_key(lua_State* L) {
  check_metamethod_table(L);
  const std::string path = read_string(L, lua_upvalueindex(2), nullptr);
  if (lua_type(L, 2) != LUA_TSTRING) return lua_pushnil(L), 1;
  const std::string key = lua_tostring(L, 2);
  const std::string full = path.empty() ? key : path + "." + key;
  if (find_config_field(full) != nullptr)
    return lua_pushnil(L), 1;  // a field of the engine that is not set
  std::vector<std::string> known = config_field_names(path);
  lua_pushnil(L);
  while (lua_next(L, 1) != 0) {
    lua_pop(L, 1);
    if (lua_type(L, -1) == LUA_TSTRING) known.insert(known.begin(), lua_tostring(L, -1));
  }
  const std::string near = nearest_name(key, known);
  throw UsageError(fmt::format("the config has no `{}`{}", full,
                               near.empty() ? "" : "\nhint: did you mean `" + near + "`?"));
}

int new_key(lua_State* L) {
  throw Error(fmt::format("the config is fixed: `{}` cannot be added while the recipe runs",
                          describe_value(L, 2)));
}

void push_config(lua_State* L, const Json& value, const std::string& path) {
  luaL_checkstack(L, 8, "a config nested too deep");
  if (!value.is_object() && !value.is_array()) return push(L, value);
  lua_newtable(L);
  int element = 0;
  if (value.is_array()) {
    for (const Json& member : value.as_array()) {
      push_config(L, member, fmt::format("{}.{}", path, ++element));
      lua_rawseti(L, -2, element);
    }
    return;
  }
  for (const auto& [key, member] : value.as_object()) {
    push(L, key);
    push_config(L, member, path.empty() ? key : path + "." + key);
    lua_rawset(L, -3);
  }
  lua_newtable(L);
  push(L, path);
  push_guard(L, "xrun.config.__index", missing_key, 1);
  lua_setfield(L, -2, "__index");
  push_guard(L, "xrun.config.__newindex", new_key);
  lua_setfield(L, -2, "__newindex");
  // A recipe that asks for the metatable gets this text and cannot lift the guard.
  push(L, "config");
  lua_setfield(L, -2, "__metatable");
  lua_setmetatable(L, -2);
}

// A value in the recipe's table that differs from the config.
struct ConfigChange {
  std::string path, is, gave;
};

// Compares the value on top of the stack with `gave`, and pops it.
void find_changes(lua_State* L, const Json& gave, const std::string& path,
                  std::vector<ConfigChange>& changes) {
  luaL_checkstack(L, 8, "a config nested too deep");
  const int value = lua_gettop(L);
  const bool list = gave.is_array() && lua_istable(L, value) && lua_objlen(L, value) == gave.size();
  if (list) {
    for (int i = 1; i <= static_cast<int>(gave.size()); ++i) {
      lua_rawgeti(L, value, i);
      find_changes(L, gave.as_array()[static_cast<size_t>(i) - 1], fmt::format("{}.{}", path, i),
                   changes);
    }
  } else if (gave.is_object() && lua_istable(L, value)) {
    for (const auto& [key, member] : gave.as_object()) {
      push(L, key);
      lua_rawget(L, value);
      find_changes(L, member, path.empty() ? key : path + "." + key, changes);
    }
  } else {
    const bool plain = !gave.is_object() && !gave.is_array();
    push(L, plain ? gave : Json());
    if (!plain || lua_rawequal(L, -1, value) == 0) {
      changes.push_back({path, describe_value(L, value), dump_json(gave)});
    }
  }
  lua_settop(L, value - 1);
}

// The changes that were not accepted from a prompt.
std::vector<ConfigChange> config_changes(lua_State* L) {
  const ConfigTable& given = LuaState::of(L).service<ConfigTable>();
  std::vector<ConfigChange> changes;
  if (!given.table) return changes;
  const RecipeContext& context = recipe_context(L);
  given.table.push(L);
  find_changes(L, context.config.values(), "", changes);
  std::erase_if(changes, [&](const ConfigChange& change) {
    return std::any_of(given.kept.begin(), given.kept.end(), [&](const std::string& key) {
      return change.path == key || change.path.starts_with(key + ".") ||
             key.starts_with(change.path + ".");
    });
  });
  return changes;
}

// The user who sets the path of one source may not know that the recipe has another one.
void note_other_sources(lua_State* L, const Config& config) {
  const Json* const data = config.values().find("data");
  if (data == nullptr || !data->is_array()) return;
  std::string kept;
  bool replaced = false;
  for (size_t i = 1; i <= data->as_array().size(); ++i) {
    const std::string origin = config.origin(fmt::format("data.{}.path", i));
    if (origin == "--set") {
      replaced = true;
    } else if (const Json* const path = data->as_array()[i - 1].find("path");
               path != nullptr && path->is_string()) {
      add_item(kept, fmt::format("data.{} is still {} ({})", i, path->as_string(), origin));
    }
  }
  if (!replaced || kept.empty()) return;
  session_of(L).console->print_escaped("note: " + kept +
                                       "; --set 'data={{ path = \"FILE\" }}' trains on FILE alone");
}

int config(lua_State* L) {
  const RecipeContext& context = recipe_context(L);
  if (context.text.config_name.empty()) {
    throw UsageError(
        "the config is read from the recipe's text, where it must be written as "
        "`local cfg = xrun.config { ... }`");
  }
  open_run_dir_early(L);
  note_other_sources(L, context.config);
  for (const std::string& note : unread_settings(context.text, context.options.sets)) {
    session_of(L).notices.add(note);
  }
  push_config(L, context.config.values(), "");
  LuaState::of(L).service<ConfigTable>() = {LuaRef(L, -1), {}};
  return 1;
}

}  // namespace

void check_config_unchanged(lua_State* L) {
  const std::vector<ConfigChange> changes = config_changes(L);
  if (changes.empty()) return;
  const ConfigChange& first = changes.front();
  const std::string& name = recipe_context(L).text.config_name;
  throw UsageError(fmt::format("{}.{} is {}, xrun.config and --set gave {}: {} is read-only; {}",
                               name, first.path, first.is, first.gave, name,
                               read_only_hint(first.path, first.is)));
}

std::vector<std::string> keep_config_changes(lua_State* L) {
  std::vector<std::string> keys;
  for (const ConfigChange& change : config_changes(L)) {
    keys.push_back(change.path);
    LuaState::of(L).service<ConfigTable>().kept.push_back(change.path);
  }
  return keys;
}

void open_config(LuaState& state) {
  state.function("config", {{"config", "xrun.Config"}}, {"xrun.Resolved"},
                 "The recipe's settings: literals only. Keys are the engine's (see `xrun explain`) "
                 "and the recipe's own, each of which some line must read as cfg.key. --set and "
                 "defaults are merged in.",
                 config);
}

}  // namespace xrun

// require: "xrun" and "xrun.NAME" are built in; "./name" is a file beside the requiring one; any
// other name is searched as NAME.lua in the recipe's folder, then in the folders of $XRUN_PATH,
// with dots for slashes. Each file is loaded once and recorded with its hash.

#include <filesystem>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/file_access.h"
#include "core/base/hash.h"
#include "core/base/strings.h"
#include "core/share/module_files.h"
#include "lua/bind/modules.h"
#include "lua/bind/recipe.h"
#include "lua/bind/session.h"
#include "lua/state/args.h"
#include "lua/state/builtin_modules.h"
#include "lua/state/source_texts.h"

namespace xrun {
namespace {

namespace fs = std::filesystem;

// The name of a file in package.loaded.
std::string module_key(const std::string& path) { return "@" + path; }

// The folder of the file whose code called require.
fs::path requiring_folder(lua_State* L) {
  lua_Debug frame{};
  for (int level = 1; lua_getstack(L, level, &frame) != 0; ++level) {
    lua_getinfo(L, "S", &frame);
    if (frame.source[0] == '@') return fs::path(frame.source + 1).parent_path();
  }
  return fs::path(recipe_context(L).options.recipe).parent_path();
}

// Runs the chunk on top of the stack as module `key` and leaves its value.
int load(lua_State* L, const std::string& key, const std::string& name) {
  const int chunk = lua_gettop(L);
  lua_getfield(L, LUA_REGISTRYINDEX, "_LOADED");
  push(L, true);  // seen by a module that requires itself in a circle
  lua_setfield(L, chunk + 1, key.c_str());
  lua_pushvalue(L, chunk);
  push(L, name);
  try {
    protected_call(L, 1, 1);
  } catch (...) {
    lua_pushnil(L);  // so that a corrected file can be required again
    lua_setfield(L, chunk + 1, key.c_str());
    throw;
  }
  if (lua_isnil(L, -1)) {
    lua_pop(L, 1);
    push(L, true);
  }
  lua_pushvalue(L, -1);
  lua_setfield(L, chunk + 1, key.c_str());
  return 1;
}

int load_file(lua_State* L, const fs::path& path, const std::string& name) {
  const fs::path file = path.lexically_normal();
  const std::string key = module_key(file.string());
  lua_getfield(L, LUA_REGISTRYINDEX, "_LOADED");
  lua_getfield(L, -1, key.c_str());
  if (!lua_isnil(L, -1)) return 1;
  const std::string text = read_file(local_path(L, file.string()), kMostRecipeBytes);
  XRUN_CHECK(!text.starts_with("\x1bLJ"), "{}: this is bytecode; modules are text", file.string());
  remember_source(L, key, text);
  const std::string hash = hash_hex(text);
  recipe_context(L).modules.push_back({name, file.string(), hash});
  note_input(session_of(L), {"modules", file.string(), "the module " + file.string(),
                             Json(Json::Object{{"digest", hash}})});
  if (luaL_loadbuffer(L, text.data(), text.size(), key.c_str()) != 0) {
    throw LuaError(syntax_report(L, -1));
  }
  return load(L, key, name);
}

int require(lua_State* L) {
  const std::string name = arg<std::string>(L, 1, "module");
  lua_getfield(L, LUA_REGISTRYINDEX, "_LOADED");
  push(L, name);  // whole, even with a zero byte
  lua_rawget(L, -2);
  if (!lua_isnil(L, -1)) return 1;
  if (name.starts_with("xrun.")) {
    std::vector<std::string> known;
    for (const BuiltinModule& module : builtin_modules()) {
      known.push_back("xrun." + std::string(module.name));
    }
    const std::string near = nearest_name(name, known);
    throw Error(fmt::format("there is no module `{}`{}", name,
                            near.empty() ? "" : "\nhint: did you mean `" + near + "`?"));
  }
  std::string tried;
  const fs::path recipe_folder = fs::path(recipe_context(L).options.recipe).parent_path();
  for (const fs::path& path : module_candidates(name, requiring_folder(L), recipe_folder)) {
    // Before is_file, which would show whether the file exists.
    check_read(local_path(L, path.string()));
    if (is_file(local_path(L, path.string()))) return load_file(L, path, name);
    add_item(tried, path.string());
  }
  // LuaJIT's own: ffi, jit.util, string.buffer, ...
  XRUN_CHECK(!file_access_limited(),
             "there is no module `{}` for a recipe that is not trusted; looked for {}", name,
             tried);
  lua_getglobal(L, "package");
  lua_getfield(L, -1, "preload");
  lua_getfield(L, -1, name.c_str());
  XRUN_CHECK(lua_isfunction(L, -1), "there is no module `{}`; looked for {}", name, tried);
  return load(L, name, name);
}

}  // namespace

void forget_modules(lua_State* L) {
  const StackGuard guard(L);
  std::vector<LoadedModule>& modules = recipe_context(L).modules;
  lua_getfield(L, LUA_REGISTRYINDEX, "_LOADED");
  for (const LoadedModule& module : modules) {
    lua_pushnil(L);
    lua_setfield(L, -2, module_key(module.path).c_str());
  }
  modules.clear();
}

void open_require(LuaState& state) {
  lua_State* L = state;
  const StackGuard guard(L);
  push_function(L,
                {.name = "require",
                 .kind = DocKind::kFunction,
                 .parameters = {{"name", "string"}},
                 .results = {"any"},
                 .doc = "Loads a module once: \"xrun\", a file beside this one (\"./name\"), or "
                        "name.lua in the recipe's folder or in $XRUN_PATH."},
                require);
  lua_setglobal(L, "require");
  lua_getfield(L, LUA_REGISTRYINDEX, "_LOADED");
  state.push_module(L);
  lua_setfield(L, -2, "xrun");
  open_builtin_modules(state);
}

}  // namespace xrun

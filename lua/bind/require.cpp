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
  lua_getfield(L, -1, name.c_str());
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
    // Before it is known whether there is one.
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

namespace {

// The documentation of what the modules of lua/xrun give recipes.
void register_module_docs() {
  const auto add = [](const char* name, std::vector<LuaParameter> parameters,
                      std::vector<LuaResult> results, const char* doc) {
    register_doc({.name = name,
                  .kind = DocKind::kFunction,
                  .parameters = std::move(parameters),
                  .results = std::move(results),
                  .doc = doc});
  };
  add("xrun.sorted_pairs", {{"table", "table"}}, {"fun(): any, any"},
      "Iterates over a table in the order of its keys, numbers before text. The order of pairs "
      "differs from run to run, so no result may depend on it.");
  add("xrun.calculate", {{"expression", "string"}}, {"number?", "string?"},
      "The value of an arithmetic expression (+ - * / % ^, parentheses, decimal numbers), or nil "
      "and "
      "what is wrong with it. Runs nothing as code, so that a model may write the expression.");
  register_doc(
      {.name = "xrun.kl",
       .kind = DocKind::kValue,
       .results = {"table"},
       .doc =
           "Estimators of the KL divergence of the policy from the reference, per sampled token: "
           "k1, k2, k3, functions of two tensors of log-probs; loss. Also by require "
           "\"xrun.kl\"."});
  const std::vector<LuaParameter> logprobs = {{"logprob", "Tensor"}, {"reference", "Tensor"}};
  add("xrun.kl.k1", logprobs, {"Tensor"},
      "x = logprob - reference: unbiased, for rewards and metrics. Its mean gradient is 0, so it "
      "is "
      "not a term of a loss.");
  add("xrun.kl.k2", logprobs, {"Tensor"},
      "x^2 / 2, x = logprob - reference: its mean gradient is that of KL(policy || reference).");
  add("xrun.kl.k3", logprobs, {"Tensor"},
      "exp(-x) + x - 1, x = logprob - reference: unbiased and never below 0; its mean gradient is "
      "that of KL(reference || policy).");
  add("xrun.kl.loss", {{"name", "string"}}, {"function"},
      "The estimator \"k2\" or \"k3\" as a term of a loss; \"k1\" is refused.");
  register_doc({.name = "xrun.rewards",
                .kind = DocKind::kValue,
                .results = {"table"},
                .doc =
                    "Rule rewards, plain functions of an answer: exact, number, format, overlong, "
                    "json. Also by require \"xrun.rewards\"."});
  const LuaParameter text{"text", "string"};
  add("xrun.rewards.exact", {text, {"wanted", "string|number"}}, {"number"},
      "1 if an answer is `wanted`, apart from blanks around both, else 0.");
  add("xrun.rewards.last_number", {text}, {"number?"},
      "The last number of a text, without the commas between three digits; nil if there is none.");
  add("xrun.rewards.number", {text, {"wanted", "string|number"}, {"tolerance?", "number"}},
      {"number"},
      "1 if the last number of an answer is `wanted` within a relative tolerance (1e-6), else 0.");
  add("xrun.rewards.format", {text, {"pattern", "string"}}, {"number"},
      "1 if the whole answer matches a Lua pattern, apart from blanks around it, else 0.");
  add("xrun.rewards.overlong", {{"length", "number"}, {"limit", "number"}, {"margin", "number"}},
      {"number"},
      "DAPO's penalty of long answers: 0 up to limit - margin tokens, then linearly to -1 at the "
      "limit.");
  add("xrun.rewards.json", {text}, {"number"},
      "1 if an answer is one JSON value, at most 100 levels deep, else 0.");
}

}  // namespace

// Runs the modules of lua/xrun: each is a field of `xrun` and can be required as xrun.NAME.
void open_builtin_modules(LuaState& state) {
  lua_State* L = state;
  register_module_docs();
  for (const BuiltinModule& module : builtin_modules()) {
    const StackGuard guard(L);
    const std::string name = "xrun." + std::string(module.name);
    // A chunk name with = is not a file of the user's: errors point at the recipe's line instead.
    luaL_loadbuffer(L, module.text.data(), module.text.size(), ("=" + name).c_str());
    protected_call(L, 0, 1);
    lua_getfield(L, LUA_REGISTRYINDEX, "_LOADED");
    lua_pushvalue(L, -2);
    lua_setfield(L, -2, name.c_str());
    state.push_module(L);
    push(L, module.name);
    lua_pushvalue(L, -4);
    lua_rawset(L, -3);
  }
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

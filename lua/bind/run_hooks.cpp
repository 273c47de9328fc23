// A retryable method is a Lua function around the C++ one. Without a C frame in between, the
// recipe's coroutine can be suspended inside the call.

#include "lua/bind/run_hooks.h"

#include <csignal>

#include "core/base/error.h"
#include "lua/bind/recipe.h"
#include "lua/state/args.h"

namespace xrun {

namespace {

constexpr std::string_view kRetryable =
    "local method, hooked, attempt, yield = ... "
    "return function(...) "
    "if not hooked() then return method(...) end "
    "local done, result = attempt(method, ...) "
    "while not done do "
    "yield() "
    "done, result = attempt(method, ...) "
    "end "
    "return result end";

int push_hooked(lua_State* L) {
  lua_pushboolean(L, run_hooks(L) != nullptr);
  return 1;
}

// attempt(method, ...) returns true and the method's value, or false if the method failed and the
// recipe is to wait.
int attempt(lua_State* L) {
  const int last = lua_gettop(L);
  RunHooks* const hooks = run_hooks(L);
  try {
    for (int i = 1; i <= last; ++i) lua_pushvalue(L, i);
    protected_call(L, last - 1, 1);
    lua_pushboolean(L, 1);
    lua_insert(L, -2);
    return 2;
  } catch (const LuaError& error) {
    lua_settop(L, last);
    if (hooks == nullptr || !hooks->on_failure(L, error.shared_report(), false)) throw;
  } catch (const Interrupted& stop) {
    lua_settop(L, last);
    const bool is_ours = stop.signal_number() == SIGINT && hooks != nullptr;
    if (!is_ours || !hooks->on_failure(L, nullptr, false)) throw;
  }
  lua_pushboolean(L, 0);
  return 1;
}

int yield_nothing(lua_State* L) { return lua_yield(L, 0); }

}  // namespace

void make_retryable(lua_State* L, const ClassInfo* info, const char* method) {
  const StackGuard guard(L);
  push_methods(L, info);
  push_builtin_text(L, kRetryable, "=retryable");
  lua_pushstring(L, method);
  lua_rawget(L, -3);
  lua_pushcfunction(L, push_hooked);
  push_function(L,
                {.name = "run.attempt",
                 .kind = DocKind::kMetamethod,
                 .parameters = {{"method", "function"}, {"...", "any"}},
                 .results = {{"boolean", "done"}, {"any", "value"}},
                 .doc = "Calls a method; false if it failed and the recipe is to wait."},
                attempt);
  lua_pushcfunction(L, yield_nothing);
  lua_call(L, 4, 1);
  lua_pushstring(L, method);
  lua_insert(L, -2);
  lua_rawset(L, -3);
}

}  // namespace xrun

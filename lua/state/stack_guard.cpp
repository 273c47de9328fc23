// The stack left is the distance from a local variable to the stack's lower end. LuaJIT's library
// functions are wrapped as bindings, which enter_binding checks; they use no upvalues, so they run
// in the binding's frame and their messages name the function as before. Those that are part of the
// interpreter (coroutine.resume, what coroutine.wrap returns) get a Lua function in front, so that
// coroutines may still yield through them.

#include "lua/state/stack_guard.h"

#include <pthread.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string_view>

#include "core/base/error.h"
#include "lua/state/lua_state.h"

namespace xrun {
namespace {

constexpr size_t kReserve = size_t{1} << 20;    // for an operator, or the report of the error
constexpr size_t kMostUsed = size_t{16} << 20;  // of a stack without a limit

// The lowest address at which a call from Lua may begin on this thread.
uintptr_t lowest_address() {
  pthread_attr_t attributes;
  void* low = nullptr;
  size_t size = 0;
  // Unknown limits: no check is better than refusing every call.
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return 0;
  pthread_attr_getstack(&attributes, &low, &size);
  pthread_attr_destroy(&attributes);
  // The main thread's stack may be unlimited (ulimit -s), so it is bounded here.
  // At most half of a small thread's stack is reserved.
  const size_t usable = std::min(size - std::min(kReserve, size / 2), kMostUsed);
  return reinterpret_cast<uintptr_t>(low) + size - usable;
}

struct LibraryFunction {
  const char *library, *name;  // library "": a global
};

// Functions that call back into Lua or run a metamethod.
constexpr LibraryFunction kCallBack[] = {{"string", "gsub"}, {"string", "format"},
                                         {"table", "sort"},  {"", "load"},
                                         {"", "dofile"},     {"", "collectgarbage"}};

void push_guarded(lua_State* L, const std::string& name, lua_CFunction function) {
  push_function(L,
                {.name = name,
                 .kind = DocKind::kMetamethod,
                 .parameters = {{"...", "any"}},
                 .results = {{"any", "..."}},
                 .doc = "Lua's own function."},
                function);
}

// Replaces the library's print, which finds tostring by an upvalue and so cannot be wrapped.
int print_values(lua_State* L) {
  const int count = lua_gettop(L);
  for (int i = 1; i <= count; ++i) {
    lua_getglobal(L, "tostring");
    lua_pushvalue(L, i);
    lua_call(L, 1, 1);
    size_t size = 0;
    const char* text = lua_tolstring(L, -1, &size);
    if (text == nullptr) return luaL_error(L, "'tostring' must return a string to 'print'");
    if (i > 1) std::fputc('\t', stdout);
    std::fwrite(text, 1, size, stdout);
    lua_pop(L, 1);
  }
  std::fputc('\n', stdout);
  return 0;
}

constexpr std::string_view kCoroutines =
    "local resume, wrap, check = ...\n"
    "return function(...) check() return resume(...) end,\n"
    "function(f)\n"
    "  if type(f) ~= 'function' then return wrap(f) end\n"
    "  local call = wrap(f)\n"
    "  return function(...) check() return call(...) end\n"
    "end";

void guard_coroutines(lua_State* L) {
  lua_getglobal(L, "coroutine");
  push_builtin_text(L, kCoroutines, "=coroutine");
  lua_getfield(L, -2, "resume");
  lua_getfield(L, -3, "wrap");
  // The check: entering a binding tests the stack, and this one does nothing else.
  push_guarded(L, "coroutine.resume", [](lua_State*) { return 0; });
  lua_call(L, 3, 2);
  lua_setfield(L, -3, "wrap");
  lua_setfield(L, -2, "resume");
}

}  // namespace

void check_c_stack() {
  // Once per thread: reading the bounds of a stack opens /proc on the main thread.
  thread_local const uintptr_t lowest = lowest_address();
  // The address of a local is the stack pointer, near enough.
  const char here = 0;
  XRUN_CHECK(reinterpret_cast<uintptr_t>(&here) > lowest,
             "stack overflow: calls through C (coroutines, string.gsub, table.sort, "
             "metamethods, xrun's functions) are nested too deeply");
}

void guard_library(lua_State* L) {
  const StackGuard guard(L);
  for (const auto& [library, name] : kCallBack) {
    lua_getglobal(L, *library == '\0' ? "_G" : library);
    lua_getfield(L, -1, name);
    // A state opened without a library lacks its functions.
    if (const lua_CFunction original = lua_tocfunction(L, -1)) {
      push_guarded(L, *library == '\0' ? name : std::string(library) + "." + name, original);
      lua_setfield(L, -3, name);
    }
    lua_pop(L, 2);
  }
  push_guarded(L, "print", print_values);
  lua_setglobal(L, "print");
  guard_coroutines(L);
}

}  // namespace xrun

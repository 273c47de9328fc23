#pragma once
// A Lua state with one way in from C++ and one way out to it.
//
// Lua calls C++ only through enter_binding, which turns C++ exceptions into Lua errors after locals
// have left scope. C++ calls Lua only through protected_call.

#include <cstddef>
#include <functional>
#include <lua.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lua/state/doc.h"
#include "lua/state/error_report.h"

namespace xrun {

// The effect of an interruption on a coroutine: ends it (kNone), suspends it now, or suspends it as
// soon as the C function that called its Lua code has returned.
enum class Suspension { kNone, kNow, kSoon };

struct LuaOptions {
  bool jit = false;  // true gives up interruption: count hooks never fire in compiled traces
};

// Owns one lua_State with the standard libraries. Not thread-safe; one state per thread.
class LuaState {
 public:
  explicit LuaState(const LuaOptions& options = {});
  ~LuaState();
  LuaState(const LuaState&) = delete;
  LuaState& operator=(const LuaState&) = delete;

  lua_State* get() const { return main_; }
  operator lua_State*() const { return main_; }
  // The owner of a state or of any of its coroutines.
  static LuaState& of(lua_State* L);

  // Returns the one T of this state: made by its default constructor at first use, destroyed after
  // the state was closed, so that finalisers may still use it.
  template <class T>
  T& service() {
    const size_t id = service_id<T>();
    if (id >= services_.size()) services_.resize(id + 1);
    if (!services_[id]) services_[id] = std::make_shared<T>();
    return *static_cast<T*>(services_[id].get());
  }

  // Adds a function to the module table `xrun`, with its signature and doc string:
  //   state.function("policy", {{"model", "string"}, {"options?", "table"}}, {"Policy"},
  //                  "Opens ...", open_policy_function);
  // A name may have one dot ("ops.load"): the inner table is made when missing.
  void function(std::string_view name, std::vector<LuaParameter> parameters,
                std::vector<LuaResult> results, std::string_view doc, lua_CFunction function);
  // Adds the value on top of main()'s stack to the module table and pops it.
  void value(std::string_view name, std::string_view type, std::string_view doc);
  // Pushes the module table that `require "xrun"` returns.
  void push_module(lua_State* L) const;

  // If this is set and returns false, a pending interruption waits: the body of a step ends first.
  std::function<bool()> may_interrupt;

  // If set, decides whether an interruption suspends the coroutine L, which can then be resumed.
  // `suspending` is called before it is suspended and clears the request.
  std::function<Suspension(lua_State* L, int signal_number)> may_suspend;
  std::function<void(lua_State* L, int signal_number)> suspending;

  // Makes this the state that interrupt_from_signal stops; nullptr: none. One per process.
  static void set_interruptible(LuaState* state);
  // Asks the interruptible state to stop at its next instruction or binding. Async-signal-safe.
  static void interrupt_from_signal(int signal_number) noexcept;
  // The number of the signal that asked to stop, or 0.
  static int interrupt_pending() noexcept;
  // Seconds since then.
  static double interrupt_age_s() noexcept;
  // Clears the request, for tests and prompts.
  static void clear_interrupt() noexcept;
  // Clears it if this signal made it; a later signal stays pending.
  static void clear_interrupt(int signal_number) noexcept;

 private:
  static size_t next_service_id();
  template <class T>
  static size_t service_id() {
    static const size_t id = next_service_id();
    return id;
  }

  lua_State* main_ = nullptr;
  std::vector<std::shared_ptr<void>> services_;
};

// The one trampoline. Its closure has the Binding as light userdata in upvalue 1.
int enter_binding(lua_State* L);

// Pushes a closure over a binding. n more upvalues are taken from the stack (indices 2...).
void push_binding(lua_State* L, const Binding* binding, int n = 0);

// Pushes a documented free function; n upvalues as of push_binding.
void push_function(lua_State* L, DocEntry entry, lua_CFunction function, int n = 0);

// Throws Interrupted if a signal asked to stop and the state may be interrupted now. Every binding
// calls it first; long loops in bindings may call it too.
void check_interrupt(lua_State* L);

// Calls the function below its `arguments` on the stack; leaves `results` values (LUA_MULTRET: as
// many as come). Throws LuaError, or Interrupted if that is what stopped it; the stack then is as
// it was below the function.
void protected_call(lua_State* L, int arguments, int results);

// Pushes the function of a built-in text. `chunk` is the name of its chunk: "=run:steps". Throws
// Error if Lua cannot load it.
void push_builtin_text(lua_State* L, std::string_view text, const std::string& chunk);

// Returns the bytes of the string at index i, zero bytes included; valid while the string is.
inline std::string_view string_at(lua_State* L, int i) {
  size_t size = 0;
  const char* const bytes = lua_tolstring(L, i, &size);
  return {bytes, size};
}

// A Lua value kept alive from C++; bound to its state, which must outlive it.
class LuaRef {
 public:
  LuaRef() = default;
  LuaRef(lua_State* L, int i);  // keeps a copy of the value at index i
  ~LuaRef();
  LuaRef(LuaRef&& other) noexcept;
  LuaRef& operator=(LuaRef&& other) noexcept;
  LuaRef(const LuaRef&) = delete;
  LuaRef& operator=(const LuaRef&) = delete;

  explicit operator bool() const { return state_ != nullptr; }
  void push(lua_State* L) const;  // pushes the value, nil if this holds none

 private:
  LuaState* state_ = nullptr;
  int ref_ = 0;
};

// Restores the height of the stack at the end of a scope.
class StackGuard {
 public:
  explicit StackGuard(lua_State* L) : state_(L), top_(lua_gettop(L)) {}
  ~StackGuard() { lua_settop(state_, top_); }
  StackGuard(const StackGuard&) = delete;
  StackGuard& operator=(const StackGuard&) = delete;

 private:
  lua_State* state_;
  int top_;
};

}  // namespace xrun

#pragma once
// Interruption of Lua code by signals: the part of LuaState that hooks and handlers need.

#include <chrono>
#include <functional>
#include <lua.hpp>
#include <memory>
#include <string>

#include "lua/state/lua_state.h"

namespace xrun {

// Pushes the error that stops a recipe, with the line that was running.
void push_interruption(lua_State* L);

// The innermost line that the last signal stopped, "dpo.lua:37"; "" if there was none.
std::string interrupted_at(lua_State* L);

// The effect of the pending signal on the coroutine (LuaState::may_suspend).
Suspension suspension(lua_State* L);

// Replaces the global xpcall by one whose handlers cannot hold up an interruption.
void guard_xpcall(lua_State* L);

struct DeadlineState;

// Stops the Lua code of a state that runs for more than `seconds`, by an error at its next
// instruction; a pcall in that code cannot swallow it. A call of C (string.rep, io.read) is not
// interrupted, and code compiled by --jit runs on. Signals still interrupt. Deadlines nest.
class LuaDeadline {
 public:
  // kWall: all time counts. kOwn: Lua code and short calls of the engine count, but only 10 ms of a
  // long call; the time of a function that the engine calls is forgotten once it returns (OwnCall),
  // so that mapping rows does not use up the deadline.
  enum class Clock { kWall, kOwn };
  // Called with the line that runs: "dpo.lua:31"; "" if it is in no file.
  using Tell = std::function<void(const std::string& line)>;

  // With `tell` nothing is stopped: `tell` is called once, and the code runs on.
  LuaDeadline(lua_State* L, double seconds, Clock clock = Clock::kWall, Tell tell = nullptr);
  ~LuaDeadline();
  LuaDeadline(const LuaDeadline&) = delete;
  LuaDeadline& operator=(const LuaDeadline&) = delete;

 private:
  lua_State* state_;
  std::unique_ptr<DeadlineState> deadline_;
  lua_Hook before_;
  int mask_, count_;
};

// Lets ask_running_line() find the running line of Lua code, even if the code does not call the
// engine: the interruptible state's next instruction on the main thread calls `tell` with
// "dpo.lua:31".
using TellLine = void (*)(const char* line);
void install_line_question(TellLine tell);
// Any thread may ask. Nothing happens while a profile or an interruption uses the state's hook.
void ask_running_line();

// The scope of a call of a recipe's function by the engine. When it ends, the time of the call no
// longer counts as the recipe's own, however many rows the function is called for.
class OwnCall {
 public:
  explicit OwnCall(lua_State* L);
  ~OwnCall();
  OwnCall(const OwnCall&) = delete;
  OwnCall& operator=(const OwnCall&) = delete;

 private:
  DeadlineState* own_;  // null: no such deadline
  std::chrono::steady_clock::duration used_{};
};

// Called by a state that closes: signals no longer reach it.
void forget_interruptible(lua_State* main) noexcept;

}  // namespace xrun

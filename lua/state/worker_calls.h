#pragma once
// Calls a recipe's function on several threads. A function that needs nothing of the recipe's
// state, such as a reward, runs in worker states, each with the modules of lua/xrun.

#include <cstdint>
#include <functional>
#include <lua.hpp>
#include <memory>

#include "lua/state/lua_state.h"

namespace xrun {

// One call. `state` is a worker's or the recipe's, `function` the function in it, `call_index`
// the number of the call: the rollout or group to score. Returns true if no later call is needed.
// Called by several threads at once, each with another state and index.
using WorkerCall =
    std::function<bool(lua_State* state, const LuaRef& function, int64_t call_index)>;

// Calls `call` with the indices 0 to count - 1 in worker states, on at::get_num_threads() threads.
// Returns false if the function cannot run there; the caller then makes every call in the recipe's
// state, and drops the results of calls already made. That is so if the function
//   has an upvalue other than xrun and its modules written in Lua (xrun.rewards), unchanged, or
//   reaches for what a worker lacks: print, io, os, random numbers, global variables, and the rest
//   of xrun. Such calls have had no effect outside their state.
// The results depend on the index alone, so they are the same for any number of threads. Throws
// Interrupted after a signal, as the recipe's state would.
bool call_on_workers(lua_State* L, const LuaRef& function, int64_t count, const WorkerCall& call);

// Makes the calls of call_on_workers on all threads but the caller's, while further calls become
// known. Used by one thread.
class WorkerCalls {
 public:
  // Returns null if the function has an upvalue that no worker has, and while another WorkerCalls
  // exists.
  //   threads  at most, the caller's included; with 1 every call waits for finish()
  static std::unique_ptr<WorkerCalls> begin(lua_State* L, const LuaRef& function, WorkerCall call,
                                            int64_t threads);
  // Waits for the calls in progress; drops the others.
  ~WorkerCalls();
  WorkerCalls(const WorkerCalls&) = delete;
  WorkerCalls& operator=(const WorkerCalls&) = delete;

  void add(int64_t calls);  // lets that many further calls be made
  int64_t called() const;   // calls that have returned
  // Makes the rest of the calls, on the caller's thread too. Returns and throws as call_on_workers.
  bool finish();

 private:
  class Threads;
  explicit WorkerCalls(std::unique_ptr<Threads> threads);
  std::unique_ptr<Threads> threads_;
};

}  // namespace xrun

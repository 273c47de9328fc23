#pragma once
// A recipe's function for worker threads: its code without the recipe's state.

#include <lua.hpp>
#include <memory>
#include <string>

namespace xrun {

class LuaState;

// Upvalues of a worker's function: refused, or set by the caller in each state after push().
enum class WorkerUpvalues { kRefused, kSetByCaller };

// A function that uses its arguments alone: it may not see the recipe's locals, since another
// thread has another state. Immutable, thread-safe.
class WorkerFunction {
 public:
  // Takes the Lua function at index i; `what` ("map") begins messages. Throws Error that names the
  // first upvalue if it has one and they are refused, and for a value that is not a Lua function.
  WorkerFunction(lua_State* L, int i, std::string what,
                 WorkerUpvalues upvalues = WorkerUpvalues::kRefused);

  // The lines that define it and a digest of its code: part of cache keys.
  const std::string& source() const { return source_; }
  const std::string& what() const { return what_; }
  // Pushes the function onto a worker's stack.
  void push(lua_State* L) const;

 private:
  std::string what_, chunk_, code_, source_;
};

// Opens a Lua state for one worker thread: string, table, math (without random) and the basic
// functions; no files, modules or clock, and no text of a table or function, which would be its
// address. `print` stays, to debug rows: its order depends on the threads. Any other global is an
// error. An interruption ends any loop in it.
std::unique_ptr<LuaState> open_worker_state();

// Returns true if code in a worker's state used what the state lacks, such as a global or the text
// of a table, since the last call, even if it caught the error.
bool take_worker_refusal(lua_State* L);
void note_worker_refusal(lua_State* L);

}  // namespace xrun

#pragma once
// Functions of a recipe that run on worker threads, each in a Lua state of its own.

#include <lua.hpp>
#include <memory>
#include <string>

namespace xrun {

class LuaState;

// The treatment of upvalues: refused, or set by the caller in each state after push().
enum class WorkerUpvalues { kRefused, kSetByCaller };

// A Lua function that uses only its arguments: the recipe's locals are in another state. Immutable,
// thread-safe.
class WorkerFunction {
 public:
  // Copies the code of the Lua function at index i; `what` ("map") begins messages. Throws Error
  // for a value that is not a Lua function, and if upvalues are refused, Error that names the
  // first.
  WorkerFunction(lua_State* L, int i, std::string what,
                 WorkerUpvalues upvalues = WorkerUpvalues::kRefused);

  // Returns the lines that define the function and a digest of its code, for cache keys.
  const std::string& source() const { return source_; }
  const std::string& what() const { return what_; }
  // Pushes the function onto a worker's stack.
  void push(lua_State* L) const;

 private:
  std::string what_, chunk_, code_, source_;
};

// Opens a Lua state for one worker thread. Code in it
//   - has string, table, bit, math (without random) and the basic functions; any other global, such
//     as files, modules and clocks, is an error;
//   - gets an error for the text of a table or function, which would be its address;
//   - may print, to debug rows; the order of the lines depends on the threads;
//   - is ended by an interruption, even in a loop.
std::unique_ptr<LuaState> open_worker_state();

// Returns true if code in a worker's state used what the state lacks, such as a global or the text
// of a table, since the last call, even if it caught the error.
bool take_worker_refusal(lua_State* L);
// Notes such a use, for the next take_worker_refusal.
void note_worker_refusal(lua_State* L);

}  // namespace xrun

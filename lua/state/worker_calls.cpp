// If a function reaches for what a worker lacks, all calls are made again in the recipe's state.
// Other functions give the same results on either side.

#include "lua/state/worker_calls.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "lua/state/args.h"
#include "lua/state/builtin_modules.h"
#include "lua/state/call_worker_state.h"
#include "lua/state/worker_function.h"

namespace xrun {

// The workers of one recipe's state, kept for later batches.
struct CallWorkers {
  std::vector<std::unique_ptr<LuaState>> states;
  std::set<std::string> refused;  // code of functions that reached for what a worker lacks
  bool busy = false;              // a WorkerCalls uses the states
};

namespace {

// ---- upvalues that a worker has too

std::string source_of_function(lua_State* L, int i) {
  lua_Debug about{};
  lua_pushvalue(L, i);
  lua_getinfo(L, ">S", &about);
  return about.source;
}

// Returns true if the value at index i holds this module's own functions: a recipe may have
// replaced one of them.
bool is_unchanged(lua_State* L, int i, const std::string& chunk) {
  if (lua_isfunction(L, i)) return source_of_function(L, i) == chunk;
  if (!lua_istable(L, i)) return false;
  const StackGuard guard(L);
  for (lua_pushnil(L); lua_next(L, i) != 0; lua_pop(L, 1)) {
    if (!lua_isfunction(L, -1) || source_of_function(L, lua_gettop(L)) != chunk) return false;
  }
  return true;
}

// The name of the module at index i, "xrun" or "xrun.rewards"; "" for any other value, and for a
// module that a recipe has changed.
std::string worker_module(lua_State* L, int i) {
  const StackGuard guard(L);
  LuaState::of(L).push_module(L);
  const int xrun = lua_gettop(L);
  // The whole table of modules, or one of them.
  const bool whole = lua_rawequal(L, i, xrun) != 0;
  for (const BuiltinModule& module : builtin_modules()) {
    const std::string name = "xrun." + std::string(module.name);
    push(L, module.name);
    lua_rawget(L, xrun);
    const int value = lua_gettop(L);
    if (!whole && lua_rawequal(L, i, value) == 0) continue;
    if (!is_unchanged(L, value, "=" + name)) return "";
    if (!whole) return name;
  }
  return whole ? "xrun" : "";
}

// The modules of the function's upvalues, in their order; false if it has another upvalue.
bool read_upvalues(lua_State* L, int i, std::vector<std::string>& modules) {
  const StackGuard guard(L);
  for (int n = 1; lua_getupvalue(L, i, n) != nullptr; ++n) {
    modules.push_back(worker_module(L, lua_gettop(L)));
    if (modules.back().empty()) return false;
  }
  return true;
}

}  // namespace

// ---- the calls of one batch

// Hands out calls to threads in ascending order, and ends them all at the first error.
class CallQueue {
 public:
  explicit CallQueue(WorkerCall call) : call_(std::move(call)) {}

  void add(int64_t calls) {
    change([&] { known_ += calls; });
  }
  // No further calls will come.
  void close() {
    change([&] { closed_ = true; });
  }
  void drop() { end_at(0); }
  int64_t called() const { return called_; }

  // Makes calls in a worker's state until none is left.
  void work(LuaState& state, const LuaRef& function, const std::function<void()>& poll) {
    try {
      while (const std::optional<int64_t> index = take()) {
        poll();
        const bool last = call_(state, function, *index);
        ++called_;
        // A refusal makes the results of this batch void.
        if (take_worker_refusal(state)) {
          refused_ = true;
          drop();
        }
        // No later call is needed; earlier ones are still made.
        if (last) end_at(*index + 1);
      }
    } catch (const std::exception&) {
      change([&] {
        // The first error counts.
        if (!failure_) failure_ = std::current_exception();
        end_ = 0;
      });
    }
  }

  // Throws what a thread threw. Called after the threads have ended.
  bool refused() const {
    if (failure_) std::rethrow_exception(failure_);
    return refused_;
  }

 private:
  template <typename Change>
  void change(const Change& change) {
    {
      const std::lock_guard lock(mutex_);
      change();
    }
    changed_.notify_all();
  }
  void end_at(int64_t index) {
    change([&] { end_ = std::min(end_, index); });
  }
  // Waits for the index of a call; nothing if there will be none.
  std::optional<int64_t> take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return closed_ || next_ < known_ || next_ >= end_; });
    if (next_ >= std::min(known_, end_)) return std::nullopt;
    return next_++;
  }

  const WorkerCall call_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t next_ = 0, known_ = 0;
  int64_t end_ = std::numeric_limits<int64_t>::max();  // no call from this index on
  bool closed_ = false;
  std::atomic<int64_t> called_{0};
  std::atomic<bool> refused_{false};
  std::exception_ptr failure_;
};

class WorkerCalls::Threads {
 public:
  // Starts a thread for each worker but the first, whose state is the caller's.
  Threads(lua_State* L, const WorkerFunction& code, const std::vector<std::string>& modules,
          WorkerCall call, int64_t threads)
      : state_(L),
        pool_(LuaState::of(L).service<CallWorkers>()),
        source_(code.source()),
        queue_(std::move(call)) {
    pool_.busy = true;
    while (std::ssize(pool_.states) < threads) {
      pool_.states.push_back(open_call_worker(LuaState::of(L)));
    }
    for (int64_t n = 0; n < threads; ++n) {
      loaded_.push_back(load_copy(*pool_.states[static_cast<size_t>(n)], code, modules));
    }
    for (size_t n = 1; n < loaded_.size(); ++n) {
      try {
        others_.emplace_back([this, n] { queue_.work(*pool_.states[n], loaded_[n], [] {}); });
      } catch (const std::system_error&) {
        break;  // no more threads from the system; the others do the rest
      }
    }
  }
  ~Threads() {
    // Also if finish() was not reached.
    queue_.drop();
    join();
    pool_.busy = false;
  }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  CallQueue& queue() { return queue_; }

  bool finish() {
    queue_.close();
    // Only the calling thread may ask the recipe's state.
    queue_.work(*pool_.states[0], loaded_[0], [this] { check_interrupt(state_); });
    join();
    if (!queue_.refused()) return true;
    pool_.refused.insert(source_);
    return false;
  }

 private:
  void join() {
    for (std::thread& thread : others_) {
      if (thread.joinable()) thread.join();
    }
  }

  lua_State* state_;
  CallWorkers& pool_;
  std::string source_;
  CallQueue queue_;
  std::vector<LuaRef> loaded_;
  std::vector<std::thread> others_;
};

WorkerCalls::WorkerCalls(std::unique_ptr<Threads> threads) : threads_(std::move(threads)) {}
WorkerCalls::~WorkerCalls() = default;

std::unique_ptr<WorkerCalls> WorkerCalls::begin(lua_State* L, const LuaRef& function,
                                                WorkerCall call, int64_t threads) {
  const StackGuard guard(L);
  function.push(L);
  const int i = lua_gettop(L);
  std::vector<std::string> modules;
  if (lua_iscfunction(L, i) != 0 || !read_upvalues(L, i, modules)) return nullptr;
  const WorkerFunction code(L, i, "a worker's function", WorkerUpvalues::kSetByCaller);
  const auto& pool = LuaState::of(L).service<CallWorkers>();
  // Busy: this is a call within a call. Refused: it would be refused again.
  if (pool.busy || pool.refused.contains(code.source())) return nullptr;
  return std::unique_ptr<WorkerCalls>(
      new WorkerCalls(std::make_unique<Threads>(L, code, modules, std::move(call), threads)));
}

void WorkerCalls::add(int64_t calls) { threads_->queue().add(calls); }
int64_t WorkerCalls::called() const { return threads_->queue().called(); }
bool WorkerCalls::finish() { return threads_->finish(); }

bool call_on_workers(lua_State* L, const LuaRef& function, int64_t count, const WorkerCall& call) {
  const int64_t threads = std::max<int64_t>(1, std::min<int64_t>(at::get_num_threads(), count));
  const auto calls = WorkerCalls::begin(L, function, call, threads);
  if (calls == nullptr) return false;
  calls->add(count);
  return calls->finish();
}

}  // namespace xrun

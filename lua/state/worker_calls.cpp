// A worker has Lua's own libraries and the modules of lua/xrun. Anything else raises an error and
// marks the state, so that a pcall in the function cannot hide it, and all calls are then made in
// the recipe's state: a function gives the same results on either side.

#include "lua/state/worker_calls.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "lua/state/args.h"
#include "lua/state/builtin_modules.h"
#include "lua/state/worker_function.h"

namespace xrun {

namespace {

// Of one recipe's state; kept for later batches.
struct CallWorkers {
  std::vector<std::unique_ptr<LuaState>> states;
  std::set<std::string> refused;  // code of functions that reached for what a worker lacks
};

// ---- upvalues that a worker has too

std::string source_of_function(lua_State* L, int i) {
  lua_Debug about{};
  lua_pushvalue(L, i);
  lua_getinfo(L, ">S", &about);
  return about.source;
}

// Returns whether the value at index i holds this module's own functions: a recipe may have
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

// ---- a worker's state

// The last argument is called with a name that is missing, and raises.
constexpr std::string_view kModulesAndLibraries = R"(
local modules, libraries, refuse = ...
local function missing(_, name) refuse(name) end
local strict = { __index = missing, __newindex = missing, __metatable = false }
local xrun = {}
for name, module in pairs(modules) do
  xrun[name] = type(module) == "table" and setmetatable(module, strict) or module
end
setmetatable(xrun, strict)
for _, library in pairs(libraries) do setmetatable(library, { __index = missing }) end
local loaded = { xrun = xrun }
for name, module in pairs(modules) do loaded["xrun." .. name] = module end
return loaded, function(name)
  if loaded[name] == nil then refuse(name) end
  return loaded[name]
end
)";

int refuse_name(lua_State* L) {
  note_worker_refusal(L);
  throw Error(fmt::format("there is no `{}` in a worker state", describe_value(L, 1)));
}

// Pushes a table of the modules of lua/xrun. One that cannot be loaded here is left out.
void push_builtin_modules(lua_State* L) {
  lua_newtable(L);
  for (const BuiltinModule& module : builtin_modules()) {
    const StackGuard guard(L);
    const std::string chunk = "=xrun." + std::string(module.name);
    luaL_loadbuffer(L, module.text.data(), module.text.size(), chunk.c_str());
    try {
      protected_call(L, 0, 1);
    } catch (const Interrupted&) {
      throw;
    } catch (const Error&) {
      continue;
    }
    lua_setfield(L, -2, std::string(module.name).c_str());
  }
}

// Pushes a table of Lua's libraries themselves; the globals are tables in front of them.
void push_libraries(lua_State* L) {
  lua_newtable(L);
  for (const char* name : {"string", "table", "math", "bit"}) {
    lua_getglobal(L, name);
    if (luaL_getmetafield(L, -1, "__index") != 0) lua_setfield(L, -3, name);
    lua_pop(L, 1);
  }
}

// registry[&kLoadedKey] = { ["xrun"] = ..., ["xrun.rewards"] = ... } of a worker
const char kLoadedKey = 0;

std::unique_ptr<LuaState> open_call_worker(const LuaState& recipe) {
  std::unique_ptr<LuaState> state = open_worker_state();
  // A body with an update in it ends before an interruption, here as in the recipe's state.
  state->may_interrupt = [&recipe] { return !recipe.may_interrupt || recipe.may_interrupt(); };
  lua_State* L = *state;
  const StackGuard guard(L);
  XRUN_CHECK(
      luaL_loadbuffer(L, kModulesAndLibraries.data(), kModulesAndLibraries.size(), "=worker") == 0,
      "a worker's modules: {}", lua_tostring(L, -1));
  push_builtin_modules(L);
  push_libraries(L);
  push_function(L,
                {.name = "worker.refuse",
                 .kind = DocKind::kMetamethod,
                 .parameters = {{"name", "string"}},
                 .doc = "Raises on names that a worker state lacks."},
                refuse_name);
  protected_call(L, 3, 2);
  lua_pushliteral(L, "require");
  lua_insert(L, -2);
  lua_rawset(L, LUA_GLOBALSINDEX);
  lua_pushlightuserdata(L, const_cast<char*>(&kLoadedKey));
  lua_insert(L, -2);
  lua_rawset(L, LUA_REGISTRYINDEX);
  // Its lines would come in the order of the threads.
  lua_pushnil(L);
  lua_setglobal(L, "print");
  take_worker_refusal(L);  // of a module that could not be loaded
  return state;
}

LuaRef load_copy(lua_State* L, const WorkerFunction& code,
                 const std::vector<std::string>& modules) {
  const StackGuard guard(L);
  code.push(L);
  const int function = lua_gettop(L);
  lua_pushlightuserdata(L, const_cast<char*>(&kLoadedKey));
  lua_rawget(L, LUA_REGISTRYINDEX);
  for (size_t n = 0; n < modules.size(); ++n) {
    lua_getfield(L, -1, modules[n].c_str());
    lua_setupvalue(L, function, static_cast<int>(n) + 1);
  }
  return LuaRef(L, function);
}

// ---- the calls of one batch

// Hands out units to threads in ascending order, and ends them all at the first error.
class UnitQueue {
 public:
  UnitQueue(int64_t count, const WorkerCall& call) : end_(count), call_(call) {}

  // Calls units in a worker's state until none is left.
  void work(LuaState& state, const LuaRef& function, const std::function<void()>& poll) {
    try {
      for (int64_t unit; (unit = next_++) < end_.load();) {
        poll();
        const bool last = call_(state, function, unit);
        if (take_worker_refusal(state)) refused_ = true;
        if (refused_) return;
        if (last) end_at(unit + 1);
      }
    } catch (const std::exception&) {
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
      end_ = 0;
    }
  }

  // Throws what a thread threw.
  bool refused() const {
    if (failure_) std::rethrow_exception(failure_);
    return refused_;
  }

 private:
  void end_at(int64_t unit) {
    for (int64_t end = end_; unit < end && !end_.compare_exchange_weak(end, unit);) {
    }
  }

  std::atomic<int64_t> next_{0}, end_;
  std::atomic<bool> refused_{false};
  const WorkerCall& call_;
  std::mutex mutex_;
  std::exception_ptr failure_;
};

}  // namespace

bool call_on_workers(lua_State* L, const LuaRef& function, int64_t count, const WorkerCall& call) {
  const StackGuard guard(L);
  function.push(L);
  const int i = lua_gettop(L);
  std::vector<std::string> modules;
  if (lua_iscfunction(L, i) != 0 || !read_upvalues(L, i, modules)) return false;
  const WorkerFunction code(L, i, "a worker's function", WorkerUpvalues::kSetByCaller);
  LuaState& recipe = LuaState::of(L);
  auto& pool = recipe.service<CallWorkers>();
  if (pool.refused.contains(code.source())) return false;
  const int64_t threads = std::max<int64_t>(1, std::min<int64_t>(at::get_num_threads(), count));
  while (std::ssize(pool.states) < threads) pool.states.push_back(open_call_worker(recipe));
  UnitQueue queue(count, call);
  // A worker of index 0 is the calling thread, which alone may ask the recipe's state.
  const auto work = [&](size_t worker, const LuaRef& loaded) {
    queue.work(*pool.states[worker], loaded, [&, worker] {
      if (worker == 0) check_interrupt(L);
    });
  };
  std::vector<LuaRef> loaded;
  for (int64_t n = 0; n < threads; ++n) {
    loaded.push_back(load_copy(*pool.states[static_cast<size_t>(n)], code, modules));
  }
  std::vector<std::thread> others;
  for (size_t n = 1; n < loaded.size(); ++n) {
    try {
      others.emplace_back([&, n] { work(n, loaded[n]); });
    } catch (const std::system_error&) {
      break;  // no more threads from the system; the others do the rest
    }
  }
  work(0, loaded[0]);
  for (std::thread& thread : others) thread.join();
  if (!queue.refused()) return true;
  pool.refused.insert(code.source());
  return false;
}

}  // namespace xrun

// Relaxed loads and stores: every call of a binding writes, and takes only 15 ns, while the
// watchdog reads a few times a second.

#include "core/base/activity.h"

#include <unistd.h>

#include <atomic>

namespace xrun {

namespace {

std::atomic<uint64_t> count = 0;
std::atomic<bool> runs_lua = false;

// On Linux the main thread's id is that of the process.
bool on_main_thread() {
  static thread_local const bool main = ::gettid() == ::getpid();
  return main;
}

// Marks the main thread's code as Lua or the engine's; returns the previous mark.
bool mark(bool lua) {
  note_activity();
  if (!on_main_thread()) return false;
  const bool before = runs_lua.load(std::memory_order_relaxed);
  runs_lua.store(lua, std::memory_order_relaxed);
  return before;
}

}  // namespace

uint64_t activity_count() { return count.load(std::memory_order_relaxed); }

// Not an atomic increment, which would be slower: the watchdog looks for a change, not a total.
void note_activity() {
  count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

bool in_lua() { return runs_lua.load(std::memory_order_relaxed); }

EngineScope::EngineScope() : before_(mark(false)) {}
EngineScope::~EngineScope() { mark(before_); }
LuaScope::LuaScope() : before_(mark(true)) {}
LuaScope::~LuaScope() { mark(before_); }

}  // namespace xrun

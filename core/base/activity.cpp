// Relaxed loads and stores: a watchdog reads a few times a second, and a binding costs only 15 ns.

#include "core/base/activity.h"

#include <unistd.h>

#include <atomic>

namespace xrun {

namespace {

std::atomic<uint64_t> count = 0;
std::atomic<bool> runs_lua = false;

bool on_main_thread() {
  static thread_local const bool main = ::gettid() == ::getpid();
  return main;
}

// Returns the previous mark.
bool mark(bool lua) {
  note_activity();
  if (!on_main_thread()) return false;
  const bool before = runs_lua.load(std::memory_order_relaxed);
  runs_lua.store(lua, std::memory_order_relaxed);
  return before;
}

}  // namespace

uint64_t activity_count() { return count.load(std::memory_order_relaxed); }

// Not an atomic increment: the watchdog needs to see a change, not a count.
void note_activity() {
  count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

bool in_lua() { return runs_lua.load(std::memory_order_relaxed); }

EngineScope::EngineScope() : before_(mark(false)) {}
EngineScope::~EngineScope() { mark(before_); }
LuaScope::LuaScope() : before_(mark(true)) {}
LuaScope::~LuaScope() { mark(before_); }

}  // namespace xrun

#pragma once
// Signs of life for a watchdog: a count that grows while the process works, and a flag that is set
// while its main thread runs Lua code.

#include <cstdint>

namespace xrun {

// Grows with every call between Lua and the engine and with every check inside long work. Any
// thread may read or raise it; raises that race count as one.
uint64_t activity_count();
void note_activity();

// Returns true while the main thread runs Lua code and no function of the engine.
bool in_lua();

// The two scopes mark the code of the main thread as the engine's or Lua's until they end. On other
// threads they only raise the count.
class EngineScope {
 public:
  EngineScope();
  ~EngineScope();
  EngineScope(const EngineScope&) = delete;
  EngineScope& operator=(const EngineScope&) = delete;

 private:
  bool before_;
};

class LuaScope {
 public:
  LuaScope();
  ~LuaScope();
  LuaScope(const LuaScope&) = delete;
  LuaScope& operator=(const LuaScope&) = delete;

 private:
  bool before_;
};

}  // namespace xrun

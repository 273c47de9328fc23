#pragma once
// Time and bytes by the recipe's line: every call of a binding is charged to the line that made it.
//
// A line's own time excludes the lines called from it: that of `adamw:step(batch, dpo)` is the
// backward pass and the update; the forward is charged to the line of dpo that calls the model.
// Time in Lua itself and between calls is not charged to a line.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <lua.hpp>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/base/json.h"

namespace xrun {

class LuaState;

struct ProfiledLine {
  int64_t calls = 0;
  double own_s = 0;       // without lines called from it
  double total_s = 0;     // with them
  int64_t allocated = 0;  // bytes of tensors on the CPU, its own
  int64_t kept = 0;       // of these and of inner lines, still held at the return
};

// Profiles the bindings of one state from construction to destruction, both in the state's thread.
// At most one exists at a time.
class LineProfile {
 public:
  explicit LineProfile(LuaState& state);
  ~LineProfile();
  LineProfile(const LineProfile&) = delete;
  LineProfile& operator=(const LineProfile&) = delete;

  // By (chunk without its mark, line): ("dpo.lua", 24).
  const std::map<std::pair<std::string, int>, ProfiledLine>& lines() const { return lines_; }
  double elapsed_s() const;
  // A table in the order of the lines, and the time that is not charged to a line.
  std::string text(int width) const;
  // {"seconds", "lines": [{"file", "line", "text", "calls", "own_s", "total_s", "allocated_bytes",
  // "kept_bytes"}]}: profile.json of a run.
  Json to_json() const;

  // For enter_binding: returns true if a call from L is counted; leave() must then follow.
  static bool enter(lua_State* L);
  static void leave();

 private:
  struct OpenCall {
    ProfiledLine* line;
    std::chrono::steady_clock::time_point began;
    double inner_s;
    int64_t allocated, inner_allocated, held;
    bool outermost;  // no call of this line is open further out
  };
  using CalledLine = std::pair<std::string, int>;
  const CalledLine* caller(lua_State* L);
  std::string line_text(const CalledLine& key) const;

  LuaState& state_;
  std::chrono::steady_clock::time_point began_;
  std::map<CalledLine, ProfiledLine> lines_;
  CalledLine caller_;  // the line of the latest call
  std::vector<OpenCall> open_;
};

// Counts one call of a binding while it lives, if a profile is on.
class ProfiledCall {
 public:
  explicit ProfiledCall(lua_State* L)
      : counted_(on.load(std::memory_order_relaxed) && LineProfile::enter(L)) {}
  ~ProfiledCall() {
    if (counted_) LineProfile::leave();
  }
  ProfiledCall(const ProfiledCall&) = delete;
  ProfiledCall& operator=(const ProfiledCall&) = delete;

 private:
  friend class LineProfile;
  // True in worker states too; enter() does not count their calls.
  static inline std::atomic<bool> on = false;
  const bool counted_;
};

}  // namespace xrun

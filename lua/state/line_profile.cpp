// Calls of bindings nest: a stack of open calls charges each one's time and bytes to its line and
// subtracts them from the call around it.

#include "lua/state/line_profile.h"

#include <fmt/core.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/process_usage.h"
#include "core/base/strings.h"
#include "core/console/terminal/table.h"
#include "core/model/ops/allocator.h"
#include "lua/state/lua_state.h"
#include "lua/state/source_texts.h"

namespace xrun {
namespace {

// One profile at a time; while there is none, bindings only test ProfiledCall::on.
LineProfile* active = nullptr;
thread_local bool profiled_thread = false;  // worker threads have their own states

std::string time_text(double seconds) {
  if (seconds >= 1) return fmt::format("{:.2f} s", seconds);
  return seconds >= 1e-3 ? fmt::format("{:.1f} ms", seconds * 1e3)
                         : fmt::format("{:.0f} us", seconds * 1e6);
}

}  // namespace

LineProfile::LineProfile(LuaState& state) : state_(state), began_(SteadyClock::now()) {
  XRUN_CHECK(active == nullptr, "a profile is being taken already");
  active = this;
  profiled_thread = true;
  ProfiledCall::on = true;
}

LineProfile::~LineProfile() {
  ProfiledCall::on = false;
  profiled_thread = false;
  active = nullptr;
}

double LineProfile::elapsed_s() const { return seconds_since(began_); }

// The innermost line in a file that led to this call; null if there is none.
const LineProfile::CalledLine* LineProfile::caller(lua_State* L) {
  // Level 0 is the binding itself.
  lua_Debug frame{};
  for (int level = 1; lua_getstack(L, level, &frame) != 0; ++level) {
    lua_getinfo(L, "Sl", &frame);
    if (frame.source == nullptr || frame.source[0] != '@' || frame.currentline <= 0) continue;
    caller_.first = frame.source + 1;
    caller_.second = frame.currentline;
    // The key is a member, so that the memory of its string is reused.
    return &caller_;
  }
  return nullptr;
}

bool LineProfile::enter(lua_State* L) {
  if (!profiled_thread) return false;
  LineProfile& profile = *active;
  const CalledLine* key = profile.caller(L);
  if (key == nullptr) return false;
  ProfiledLine& line = profile.lines_[*key];
  // A recursive line counts its total once, in its outermost call.
  const bool open = std::any_of(profile.open_.begin(), profile.open_.end(),
                                [&](const OpenCall& call) { return call.line == &line; });
  const MemoryCount memory = memory_count();
  profile.open_.push_back({&line, SteadyClock::now(), 0, memory.allocated, 0, memory.held, !open});
  return true;
}

void LineProfile::leave() {
  LineProfile& profile = *active;
  const OpenCall call = profile.open_.back();
  profile.open_.pop_back();
  const double elapsed = seconds_since(call.began);
  const MemoryCount memory = memory_count();
  const int64_t allocated = memory.allocated - call.allocated;
  ProfiledLine& line = *call.line;
  ++line.calls;
  // Calls inside are charged to their own lines.
  line.own_s += elapsed - call.inner_s;
  line.allocated += allocated - call.inner_allocated;
  if (call.outermost) {
    line.total_s += elapsed;
    line.kept += memory.held - call.held;
  }
  if (profile.open_.empty()) return;
  // The call around this one subtracts it.
  profile.open_.back().inner_s += elapsed;
  profile.open_.back().inner_allocated += allocated;
}

std::string LineProfile::line_text(const CalledLine& key) const {
  std::string text = source_line(state_, "@" + key.first, key.second);
  text.erase(0, text.find_first_not_of(" \t"));
  return text;
}

std::string LineProfile::text(int width) const {
  const double elapsed = elapsed_s();
  TextTable table({"own", "share", "with calls", "calls", "allocated", "line", "text"},
                  {Align::kRight, Align::kRight, Align::kRight, Align::kRight, Align::kRight,
                   Align::kRight, Align::kLeft});
  double own = 0;
  std::string file;
  for (const auto& [key, line] : lines_) {
    // Lines are sorted by file, so its name comes once, above them.
    if (key.first != file) table.add({"", "", "", "", "", "", key.first + ":"});
    file = key.first;
    own += line.own_s;
    table.add({time_text(line.own_s), fmt::format("{:.1f} %", 100 * line.own_s / elapsed),
               time_text(line.total_s), count_text(line.calls),
               format_bytes(static_cast<double>(line.allocated)), std::to_string(key.second),
               "  " + line_text(key)});
  }
  if (lines_.empty()) return time_text(elapsed) + " in Lua alone: no line called xrun";
  return table.text(width) + fmt::format("{} in all, {} of it in Lua itself", time_text(elapsed),
                                         time_text(std::max(0.0, elapsed - own)));
}

Json LineProfile::to_json() const {
  Json::Array lines;
  for (const auto& [key, line] : lines_) {
    lines.push_back(Json(Json::Object{{"file", key.first},
                                      {"line", static_cast<int64_t>(key.second)},
                                      {"text", line_text(key)},
                                      {"calls", line.calls},
                                      {"own_s", line.own_s},
                                      {"total_s", line.total_s},
                                      {"allocated_bytes", line.allocated},
                                      {"kept_bytes", line.kept}}));
  }
  return Json(Json::Object{{"seconds", elapsed_s()}, {"lines", Json(std::move(lines))}});
}

}  // namespace xrun

#pragma once
// A clock that no one sets: what durations are measured with.

#include <chrono>

namespace xrun {

using SteadyClock = std::chrono::steady_clock;

inline double seconds_since(SteadyClock::time_point moment) {
  return std::chrono::duration<double>(SteadyClock::now() - moment).count();
}

}  // namespace xrun

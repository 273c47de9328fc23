#pragma once
// Time and memory that this process uses.

#include <chrono>
#include <cstdint>

namespace xrun {

// The clock for durations: it never jumps, unlike the time of day.
using SteadyClock = std::chrono::steady_clock;

inline double seconds_since(SteadyClock::time_point begin) {
  return std::chrono::duration<double>(SteadyClock::now() - begin).count();
}

// Returns CLOCK_MONOTONIC in milliseconds, the same for all processes of a machine.
// Async-signal-safe.
int64_t monotonic_ms();

// Returns the bytes resident in memory; 0 if the system does not say.
int64_t resident_bytes();
// Returns the peak of resident_bytes.
int64_t peak_resident_bytes();

}  // namespace xrun

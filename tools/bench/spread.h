#pragma once
// Wall-clock timing and its spread, for the benchmarks.

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace xrun {

class Stopwatch {
 public:
  // Returns the milliseconds since the last lap, or since it was made.
  double lap_ms() {
    const auto now = std::chrono::steady_clock::now();
    const std::chrono::duration<double, std::milli> took = now - last_;
    last_ = now;
    return took.count();
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

// "median (lowest to highest) unit, n runs"; values must not be empty.
inline std::string spread_of(std::vector<double> values, std::string_view unit) {
  std::sort(values.begin(), values.end());
  return fmt::format("{:.2f} ({:.2f} to {:.2f}) {}, {} runs", values[values.size() / 2],
                     values.front(), values.back(), unit, values.size());
}

}  // namespace xrun

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

// Milliseconds of two works that alternate, and the ratio of each pair.
struct Pairs {
  std::vector<double> a_ms, b_ms, ratio;  // ratio is a / b
};

// Runs a, b, a, b, ... `runs` times each, after one of each that is not counted.
template <class A, class B>
Pairs interleave(int runs, const A& a, const B& b) {
  Pairs pairs;
  for (int i = -1; i < runs; ++i) {
    Stopwatch watch;
    a();
    const double a_ms = watch.lap_ms();
    b();
    const double b_ms = watch.lap_ms();
    if (i < 0) continue;
    pairs.a_ms.push_back(a_ms);
    pairs.b_ms.push_back(b_ms);
    pairs.ratio.push_back(a_ms / b_ms);
  }
  return pairs;
}

}  // namespace xrun

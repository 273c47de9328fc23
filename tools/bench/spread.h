#pragma once
// Timing, its spread, and the one form in which benchmarks print figures.

#include <fmt/core.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
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

// Returns the CPU time that `run` takes in this thread. Other programs disturb it less than wall
// time.
template <class Run>
double thread_seconds(const Run& run) {
  const auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
  };
  const double begin = now();
  run();
  return now() - begin;
}

// Returns true if figures are printed as JSON (`xrun bench --json`); nothing else may then be
// printed.
inline bool prints_json() { return std::getenv("XRUN_BENCH_JSON") != nullptr; }

// Median, lowest and highest of values, which must not be empty.
struct Spread {
  explicit Spread(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    median = values[values.size() / 2], low = values.front(), high = values.back();
  }
  double median, low, high;
};

// A result: `values` of the runs, and `ratio` of each to a peer or to a peak of this machine.
struct Figure {
  std::string name;
  std::vector<double> values;
  std::string unit;
  std::vector<double> ratio = {};  // may be empty
  std::string peer = {};           // "of eager's time"
};

// "head: 46.50 ms (40.60 to 57.90), 61 runs; 0.64 of eager's time (0.49 to 0.80)", or an object.
inline void print_figure(const Figure& figure) {
  const Spread value(figure.values);
  const Spread ratio(figure.ratio.empty() ? std::vector<double>{0} : figure.ratio);
  const bool compared = !figure.ratio.empty();
  const size_t runs = figure.values.size();
  if (prints_json()) {
    fmt::print(R"({{"name":"{}","value":{:.6g},"unit":"{}","low":{:.6g},"high":{:.6g},"runs":{})",
               figure.name, value.median, figure.unit, value.low, value.high, runs);
    if (compared) {
      fmt::print(R"(,"ratio":{:.6g},"peer":"{}","ratio_low":{:.6g},"ratio_high":{:.6g})",
                 ratio.median, figure.peer, ratio.low, ratio.high);
    }
    fmt::print("}}\n");
  } else {
    fmt::print("{}: {:.2f} {}", figure.name, value.median, figure.unit);
    if (runs > 1) fmt::print(" ({:.2f} to {:.2f}), {} runs", value.low, value.high, runs);
    if (compared) {
      fmt::print("; {:.2f} {} ({:.2f} to {:.2f})", ratio.median, figure.peer, ratio.low,
                 ratio.high);
    }
    fmt::print("\n");
  }
  std::fflush(stdout);
}

// Prints a line about the machine or the input, unless figures are printed as JSON.
template <class... Values>
void print_note(fmt::format_string<Values...> form, Values&&... values) {
  if (!prints_json()) fmt::print(form, std::forward<Values>(values)...);
}

// Milliseconds of alternating runs of two functions, and the ratio of each pair.
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

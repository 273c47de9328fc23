#pragma once
// One axis of a plot: what it spans, its ticks, and where a value lies on it.

#include <string>
#include <vector>

namespace xrun {

struct Tick {
  double value;
  std::string text;  // "0.25", "1e-05", "20,000"
};

struct PlotAxis {
  double low = 0, high = 1;  // low < high; both > 0 on a logarithmic axis
  bool log = false;
  std::vector<Tick> ticks;

  double place(double value) const;  // 0 at low, 1 at high
};

// An axis over values from `low` to `high` with about `wanted` ticks, at 1, 2 or 5 times a power of
// ten; where log is true at powers of ten, and at 2 and 5 times these if there are few. A span of
// nothing is widened around its value. Throws Error if an end is not finite, if low > high, or if
// log is asked for values that are not positive.
PlotAxis plot_axis(double low, double high, int wanted, bool log = false);

// Whether values read better on a logarithmic axis: all positive, and over more than 2.5 decades.
bool wants_log(double low, double high);

// "0.6931", "-12.3", "1.2e-05", "16,993": four significant digits, large ones whole; a NaN is
// "none".
std::string axis_number(double value);

}  // namespace xrun

#pragma once
// One axis of a plot: its span, its ticks, and the position of a value on it.

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

  double position(double value) const;  // 0 at low, 1 at high
};

// Returns an axis from `low` to `high` with about `wanted` ticks, whose distance is 1, 2 or 5 times
// a power of ten. With `log` they are at powers of ten, and at 2 and 5 times these if there are
// few. An empty span is widened around its value. Throws Error if an end is not finite, low > high,
// or log and low <= 0.
PlotAxis plot_axis(double low, double high, int wanted, bool log = false);

// Returns true if a logarithmic axis is better: both ends are positive, more than 2.5 decades
// apart.
bool wants_log(double low, double high);

// Returns "0.6931", "-12.3", "1.2e-05", "16,993": four significant digits, or whole numbers; a NaN
// is "none".
std::string axis_number(double value);

}  // namespace xrun

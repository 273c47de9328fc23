// A tick is a whole multiple of the step, not a sum of steps, which would drift.

#include "core/console/page/plot_axis.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/base/strings.h"

namespace xrun {

namespace {

constexpr double kLogSpan = 316;  // 2.5 decades

// Returns 1, 2 or 5 times a power of ten, about span / wanted.
double tick_step(double span, int wanted) {
  const double rough = span / std::max(wanted, 1);
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    // 0.7: a few ticks too many rather than too few.
    if (factor * power >= rough * 0.7) return factor * power;
  }
  return 10 * power;
}

// Returns a tick's value with the digits that its step needs.
std::string tick_text(double value, double step) {
  if (value == 0) return "0";
  const double size = std::abs(value);
  if (size >= 1e7 || size < 1e-4) {
    // Usually six digits; more if neighbouring ticks would read the same.
    const int needed = static_cast<int>(std::ceil(std::log10(size / step))) + 1;
    return fmt::format("{:.{}g}", value, std::clamp(needed, 6, 15));
  }
  if (step >= 1) return count_text(std::llround(value));
  // 1e-9 absorbs the rounding of log10 at exact powers of ten.
  const int digits = static_cast<int>(std::ceil(-std::log10(step) - 1e-9));
  return fmt::format("{:.{}f}", value, digits);
}

void add_even_ticks(PlotAxis& axis, int wanted) {
  const double step = tick_step(axis.high - axis.low, wanted);
  // 1e-9 keeps a tick at the end of the axis, which the division may round past.
  const double first = std::ceil(axis.low / step - 1e-9);
  const double last = std::floor(axis.high / step + 1e-9);
  // Beyond 2^53 neighbouring ticks would be one number.
  if (!(last - first < 100) || std::abs(last) > 9e15 || std::abs(first) > 9e15) return;
  for (double i = first; i <= last; ++i)
    axis.ticks.push_back({i * step, tick_text(i * step, step)});
}

void add_log_ticks(PlotAxis& axis, int wanted) {
  const int first = static_cast<int>(std::floor(std::log10(axis.low)));
  const int last = static_cast<int>(std::ceil(std::log10(axis.high)));
  const int decades = last - first;
  const int skip = std::max(1, decades / std::max(wanted, 1));  // 2: every second decade has a tick
  const bool fine = decades <= 2;                               // ticks at 2 and 5 times them too
  for (int power = first; power <= last; power += skip) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      if (factor > 1 && !fine) continue;
      const double value = factor * std::pow(10.0, power);
      if (value < axis.low * (1 - 1e-9) || value > axis.high * (1 + 1e-9)) continue;
      axis.ticks.push_back({value, fmt::format("{:g}", value)});
    }
  }
}

}  // namespace

double PlotAxis::position(double value) const {
  if (log) return (std::log10(value) - std::log10(low)) / (std::log10(high) - std::log10(low));
  return (value - low) / (high - low);
}

PlotAxis plot_axis(double low, double high, int wanted, bool log) {
  XRUN_CHECK(std::isfinite(low) && std::isfinite(high) && low <= high,
             "an axis from {} to {}: wanted finite ends, the lower first", low, high);
  XRUN_CHECK(!log || low > 0, "a logarithmic axis from {}: wanted positive values", low);
  if (low == high) {
    const double around = low == 0 ? 1 : std::abs(low) / 10;
    low = log ? low / 2 : low - around;
    high = log ? high * 2 : high + around;
  }
  // Larger values would make the span infinite.
  constexpr double kMost = 1e300;
  PlotAxis axis{std::max(low, -kMost), std::min(high, kMost), log, {}};
  if (!(axis.low < axis.high)) axis = {-kMost, kMost, false, {}};
  if (log) {
    add_log_ticks(axis, wanted);
  } else {
    add_even_ticks(axis, wanted);
  }
  return axis;
}

bool wants_log(double low, double high) { return low > 0 && high / low > kLogSpan; }

std::string axis_number(double value) {
  if (std::isnan(value)) return "none";
  const double size = std::abs(value);
  if (size < 1e7 && (size >= 1e4 || value == std::floor(value))) {
    return count_text(std::llround(value));
  }
  return fmt::format("{:.4g}", value);
}

}  // namespace xrun

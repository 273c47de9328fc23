#pragma once
// Numbers before they become text.

#include <cmath>
#include <limits>

namespace xrun {

// The number; of a NaN the one without a sign, which prints as "nan" and never as "-nan".
inline double plain_nan(double value) {
  return std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value;
}

}  // namespace xrun

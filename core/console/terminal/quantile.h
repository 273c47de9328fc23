#pragma once
// Order statistics of what a page shows.

#include <vector>

namespace xrun {

// The value below which `share` (0 to 1) of the finite ones lie; NaN if there is none.
double quantile(std::vector<double> values, double share);

}  // namespace xrun

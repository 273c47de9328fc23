#pragma once
// Compares two recipes, bundles or runs in everything that changes their numbers.

#include <string>
#include <vector>

#include "core/run/record/run_comparison.h"

namespace xrun {

// Compares two of: a recipe's file, a bundle, the folder of a run. Nothing is run, and a bundle is
// not extracted. Two runs are compared as compare_runs does; otherwise settings, recipe, modules,
// bytes of data and the steps that both have, and for two bundles also models, templates and
// projections. Adds what is not compared to `notices`. Throws the errors of reading them.
RunComparison compare_numbers(const std::string& a, const std::string& b,
                              std::vector<std::string>& notices);

}  // namespace xrun

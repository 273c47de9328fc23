#pragma once
// The comparison of recipes, bundles and runs with each other: what has an effect, by what both
// sides know of themselves.

#include <string>
#include <vector>

#include "core/run/record/run_comparison.h"

namespace xrun {

// Compares two of: a recipe's file, a bundle, the folder of a run. Nothing is run, and a bundle is
// not extracted. Two runs compare as compare_runs does; otherwise settings, recipe, modules of the
// same name, bytes of data, and the steps that both have. Adds what could not be read to `notices`.
// Throws as reading them does.
RunComparison compare_effective(const std::string& a, const std::string& b,
                                std::vector<std::string>& notices);

}  // namespace xrun

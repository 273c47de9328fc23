#pragma once
// What commands that read runs say of them beside their output.

#include <vector>

#include "core/run/record/run_files.h"

namespace xrun {

// Says on standard error what is missing from the runs or could not be read.
void warn_of_gaps(const std::vector<RunFiles>& runs);

}  // namespace xrun

#pragma once
// Notices of commands that read runs.

#include <vector>

#include "core/run/record/run_files.h"

namespace xrun {

// Prints to standard error which parts of the runs are missing or unreadable.
void warn_of_gaps(const std::vector<RunFiles>& runs);

}  // namespace xrun

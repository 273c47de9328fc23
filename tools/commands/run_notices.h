#pragma once
// Notices of commands that read runs.

#include <vector>

#include "core/run/record/run_files.h"

namespace xrun {

// Reports missing and unreadable parts of the runs on standard error.
void warn_of_gaps(const std::vector<RunFiles>& runs);

}  // namespace xrun

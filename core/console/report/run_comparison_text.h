#pragma once
// `xrun diff` for people: what differs between two runs, part by part.

#include <string>

#include "core/console/terminal/console.h"
#include "core/run/record/run_comparison.h"

namespace xrun {

// Lines under "config", "code", "data", "results" and "machine"; a part without a difference is one
// line. Wide tables are cut to the console's width if it is a terminal.
std::string comparison_text(const RunComparison& comparison, const Console& console);

}  // namespace xrun

#pragma once
// Runs shown to people: `xrun report`, one self-contained page, and `xrun diff`, text.

#include <span>
#include <string>

#include "core/console/terminal/console.h"
#include "core/run/record/run_comparison.h"
#include "core/run/record/run_files.h"

namespace xrun {

// Returns the page. Several runs are drawn over each other, each in its colour, with their settings
// side by side. Curves take at most about 2 MB: with more lines each has fewer points. Requires at
// least one run.
std::string report_page(std::span<const RunFiles> runs);

// Returns lines under "config", "code", "data", "results" and "machine"; a section without a
// difference is one line. Wide tables are cut to the width of a terminal.
std::string comparison_text(const RunComparison& comparison, const Console& console);

}  // namespace xrun

#pragma once
// Shows runs to people: as one self-contained page (`xrun report`) and as text (`xrun diff`).

#include <span>
#include <string>

#include "core/console/terminal/console.h"
#include "core/run/record/run_comparison.h"
#include "core/run/record/run_files.h"

namespace xrun {

// Returns the page. Several runs are drawn over each other, each in its colour, with their settings
// side by side. All curves together take at most about 2 MB: the more lines, the fewer points each
// has. Requires at least one run.
std::string report_page(std::span<const RunFiles> runs);

// Returns the sections "config", "code", "data", "results", "history" (of resumed runs) and
// "machine"; a section without a difference is one line. Tables are cut to the width of a terminal.
std::string comparison_text(const RunComparison& comparison, const Console& console);

}  // namespace xrun

#pragma once
// The report on runs: one self-contained page of curves, data, settings, samples, time and memory.

#include <span>
#include <string>

#include "core/run/record/run_files.h"

namespace xrun {

// Returns the page. Several runs are drawn over each other, each in its colour, and their settings
// stand side by side. However many steps, lines and runs, the curves take some 2 MB at most: with
// more lines each is drawn with fewer points. Requires one run at least.
std::string report_page(std::span<const RunFiles> runs);

}  // namespace xrun

#pragma once
// The sections of a report, each as HTML with its headings. An empty section gives its reason.

#include <span>
#include <string>

#include "core/run/record/run_files.h"

namespace xrun {

using Runs = std::span<const RunFiles>;

// Returns the runs with their state, last figures and boxes that hide them, then the notices on
// files that could not be read.
std::string report_summary(Runs runs);
// Returns the smoothing slider, curves by topic, histograms over steps, and a table of the figures.
std::string report_curves(Runs runs);
std::string report_ledger(Runs runs);
std::string report_settings(Runs runs);  // resolved config with origins; text of the recipes
std::string report_samples(Runs runs);
std::string report_rollouts(Runs runs);     // rewards, pass@k, lengths, best and worst answers
std::string report_rows(Runs runs);         // some rows as they trained, and their lengths
std::string report_time(Runs runs);         // by recipe line if there is a profile
std::string report_memory(Runs runs);       // by kind, planned and measured
std::string report_environment(Runs runs);  // machine, binaries, digests of the inputs

// Returns "<h3>NAME</h3>" if there are several runs, else "".
std::string run_heading(Runs runs, const RunFiles& run);
// Returns "finished", "stopped: patience", "running", "not finished: killed", or "not finished:
// killed or still running" if the run's lock cannot tell.
std::string run_state_text(const RunFiles& run);

}  // namespace xrun

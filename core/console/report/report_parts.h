#pragma once
// The sections of a report, each as HTML with its own headings; a section that has nothing to show
// says why.

#include <span>
#include <string>

#include "core/run/record/run_files.h"

namespace xrun {

using Runs = std::span<const RunFiles>;

// The runs with their state, last figures and the boxes that hide them; what could not be read.
std::string report_summary(Runs runs);
// The smoothing slider, curves by topic, histograms over steps, and the figures as a table.
std::string report_curves(Runs runs);
std::string report_ledger(Runs runs);
std::string report_settings(Runs runs);  // resolved config with origins; the recipes' text
std::string report_samples(Runs runs);
std::string report_rows(Runs runs);         // of the data as they trained, and how long they are
std::string report_time(Runs runs);         // by recipe line where a profile was taken
std::string report_memory(Runs runs);       // by kind, planned and measured
std::string report_environment(Runs runs);  // and hashes

// "<h3>NAME</h3>" where there are several runs, else "".
std::string run_heading(Runs runs, const RunFiles& run);
// How the run stands: "finished", "stopped: patience", "not finished: killed, or still going on".
std::string run_state_text(const RunFiles& run);

}  // namespace xrun

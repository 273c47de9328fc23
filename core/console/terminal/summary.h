#pragma once
// The reports of a run before step 0 and at its end, as text. Foreign text passes shown_text.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/console/terminal/console.h"

namespace xrun {

struct RunSummary;

// Returns a console that lays out text for a file: as wide as `like`, without colours or output.
Console console_of_file(const Console& like);

// The report before step 0. Empty or negative fields are left out.
struct OpeningReport {
  std::string recipe;  // "recipes/dpo.lua"
  std::string model;   // "smollm2-135m-instruct (llama, 30 layers, fp32)"
  int64_t parameters = -1;
  int64_t trainable = -1;
  std::string ledger;                                      // Ledger::text() of each data set
  std::vector<std::pair<std::string, std::string>> facts;  // further lines, in order
  int64_t steps = -1;
  int64_t tokens = -1;               // of all kept rows
  std::string output;                // the run folder
  std::vector<std::string> notices;  // below the facts: "template: tagged:smollm2"
};
std::string opening_report(const OpeningReport& report, const Console& console);

// Returns "resumed runs/dpo-1a2b3c4d at step 57" and a line for each notice. A negative step means
// that there is no checkpoint.
std::string resume_line(const std::string& dir, int64_t step,
                        const std::vector<std::string>& notices);

// Returns the answer to the first Ctrl-C inside a step: "stopping after this step, in up to 20s;
// ...", without the time if it is below 2 seconds.
std::string stopping_line(double step_seconds);

// Returns the command that continues a run. It needs no settings: they are in the run's folder.
std::string resume_command(const std::string& recipe, const std::string& dir);

// Returns steps, last loss and accuracy (train and valid), first and last reward and score, time,
// tokens/s, peak memory, folder, exported models, and the command that continues a run that --steps
// ended.
std::string closing_summary(const RunSummary& summary, const Console& console);

}  // namespace xrun

#pragma once
// Makes the findings of `xrun check` about a recipe paused at a loop, one function per section.

#include <string>
#include <vector>

#include "core/console/terminal/finding.h"

namespace xrun {

class Config;
class Preview;
struct ErrorReport;
struct LoopPause;
struct Session;

// Splits the text "dpo.lua:12: text" into location and text. A text without a location stays whole.
void split_location(Finding& finding);

// Reports an error of the recipe with its position and the fix.
Finding error_finding(const std::string& subject, const ErrorReport& report);

// Reports the number of values, and a line with the origin of each that is not at its default (of
// each value with `all`).
Finding config_finding(const Config& config, bool all);

// Reports for each source its rows kept, dropped by reason, cut and repaired.
std::vector<Finding> ledger_findings(const Session& session);

// Reports the template laws that hold and those that are switched off, and the notices of opening
// data and policy.
std::vector<Finding> template_findings(Preview& preview);

// Reports the steps of the loop, the packs of its next one, rows that fit into no micro-batch, and
// rows that look alike but do not share their prefixes.
std::vector<Finding> loop_findings(const LoopPause& pause);

// Reports the first model whose folder has no weights, or others than its config.json asks for;
// empty if there is none. Reads the headers of the files.
std::vector<Finding> weight_findings(const LoopPause& pause);

// Reports the plan of the loop's memory, or that it does not fit.
Finding memory_finding(const LoopPause& pause);

// Runs one body of the loop on seeded stand-ins, and checks the gradient of each objective that the
// body steps with. Afterwards the recipe is paused again, done or failed.
std::vector<Finding> dry_step_findings(Preview& preview);

}  // namespace xrun

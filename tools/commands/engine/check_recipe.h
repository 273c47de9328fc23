#pragma once
// The findings of `xrun check` about a recipe paused at a loop, one function per section.

#include <string>
#include <vector>

#include "core/console/terminal/finding.h"

namespace xrun {

class Config;
class Preview;
struct ErrorReport;
struct LoopPause;
struct Session;

// Splits the text "dpo.lua:12: text" into location and text; one without a location is unchanged.
void split_location(Finding& finding);

// An error of the recipe, with its position and the fix.
Finding error_finding(const std::string& subject, const ErrorReport& report);

// The number of values, and a line for each that is not at its default (`all`: every one) with its
// origin.
Finding config_finding(const Config& config, bool all);

// One for each source of rows: kept, dropped by reason, cut, repaired.
std::vector<Finding> ledger_findings(const Session& session);

// The template laws: held, or switched off; and what opening the data and the policy had to say.
std::vector<Finding> template_findings(Preview& preview);

// The steps of the loop, the packs of its next one, rows that fit into no micro-batch, and rows
// that look alike and do not share their prefixes.
std::vector<Finding> loop_findings(const LoopPause& pause);

// The first model whose folder has no weights, or others than its config.json asks for; empty if
// there is none. Reads the headers of files of weights.
std::vector<Finding> weight_findings(const LoopPause& pause);

// The plan of its memory, or that it does not fit.
Finding memory_finding(const LoopPause& pause);

// One body of the loop on seeded stand-ins, and the gradient of each objective that it steps with.
// The recipe is paused again afterwards, or failed.
std::vector<Finding> dry_step_findings(Preview& preview);

}  // namespace xrun

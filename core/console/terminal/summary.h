#pragma once
// What a run says before step 0 and when it ends, as text for the console: what comes from files is
// shown, never obeyed.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/console/terminal/console.h"

namespace xrun {

struct RunSummary;

// A console for text that goes into a file: as wide as `like`, without colours. Prints nothing.
Console console_of_file(const Console& like);

// The report before step 0. Empty or negative fields are left out.
struct OpeningReport {
  std::string recipe;  // "recipes/dpo.lua"
  std::string model;   // "smollm2-135m-instruct (llama, 30 layers, fp32)"
  int64_t parameters = -1;
  int64_t trainable = -1;
  std::string ledger;                                      // Ledger::text() of each data set
  std::vector<std::pair<std::string, std::string>> facts;  // further "name: text" lines, in order
  int64_t steps = -1;
  int64_t tokens = -1;               // of all kept rows
  std::string output;                // the run folder
  std::vector<std::string> notices;  // things said aloud: a chosen template, partial batch, ...
};
std::string opening_report(const OpeningReport& report, const Console& console);

// "resumed runs/dpo-1a2b3c4d at step 57", with what changed.
std::string resume_line(const std::string& dir, int64_t step,
                        const std::vector<std::string>& notices);

// Steps, last loss and accuracy (train and valid), time, tokens/s, peak memory, folder, exported
// model, and how to go on if it ended early.
std::string closing_summary(const RunSummary& summary, const Console& console);

}  // namespace xrun

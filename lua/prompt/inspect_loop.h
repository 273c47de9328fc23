#pragma once
// A step of a paused loop, as values and as text.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/console/inspect/inspected_pack.h"
#include "core/console/terminal/console.h"
#include "lua/prompt/pause_hooks.h"

namespace xrun {

// Returns the packs of a step of the loop that the recipe is paused at, as they train, one entry
// per set; `rows` as in inspect_step. No weights are loaded. Throws Error for a step that the loop
// does not have.
std::vector<InspectedStep> inspect_loop(const LoopPause& pause, const std::string& recipe,
                                        int64_t step, int64_t rows = -1);

// Parses N of `:batch N`. Throws Error if it is not a number above 0.
int64_t batch_rows(std::string_view text);

// Returns inspect_loop() as text for a console (inspected_pack.h).
std::string loop_text(const LoopPause& pause, const std::string& recipe, int64_t step, int64_t rows,
                      const ConsoleTraits& traits);

class PausedRun;

// Returns a line for each segment of each set of the loop: its row, tokens and trained tokens.
std::string batch_text(PausedRun& paused);

}  // namespace xrun

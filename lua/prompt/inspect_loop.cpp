#include "lua/prompt/inspect_loop.h"

#include <charconv>

#include "core/base/error.h"
#include "core/console/inspect/inspected_pack.h"
#include "core/train/policy.h"
#include "lua/bind/run_loop.h"

namespace xrun {

std::vector<InspectedStep> inspect_loop(const LoopPause& pause, const std::string& recipe,
                                        int64_t step, int64_t rows) {
  const StepLoop& loop = *pause.loop;
  const int64_t end = loop.first_step + loop.steps;
  XRUN_CHECK(step >= loop.first_step && step < end, "step {} is not of this loop: it has {} to {}",
             step, loop.first_step, end - 1);
  std::vector<InspectedStep> sets;
  int64_t pairs = 0;
  for (const StepSource& source : loop.sources) {
    const DataHandle& data = *source.data;
    const InspectedSource from{data.set, *data.policy->tokenizer(), recipe, data.name, step,
                               end,      loop.max_tokens,           pairs};
    sets.push_back(inspect_step(from, source.plan, step - loop.first_step, rows));
    pairs += sets.back().units;
  }
  return sets;
}

int64_t batch_rows(std::string_view text) {
  int64_t rows = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), rows);
  XRUN_CHECK(fault == std::errc() && end == text.data() + text.size() && rows > 0,
             ":batch {}: wanted a number of rows, as in `:batch 3`", text);
  return rows;
}

std::string loop_text(const LoopPause& pause, const std::string& recipe, int64_t step, int64_t rows,
                      const ConsoleTraits& traits) {
  std::string text;
  for (const InspectedStep& set : inspect_loop(pause, recipe, step, rows)) {
    if (!text.empty()) text += '\n';
    text += step_text(set, {traits.colors, traits.width});
  }
  return text;
}

}  // namespace xrun

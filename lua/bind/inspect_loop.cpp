#include "lua/bind/inspect_loop.h"

#include "core/base/error.h"
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

}  // namespace xrun

#pragma once
// xrun.rollouts: prompts, sampling and reward as a source of run:steps.

#include <cstdint>
#include <lua.hpp>
#include <memory>
#include <optional>
#include <string>

#include "core/rollout/group_queue.h"
#include "core/rollout/planned_answers.h"
#include "lua/bind/data_handle.h"
#include "lua/state/lua_state.h"

namespace xrun {

struct StepLoop;
struct StepSource;

// The arguments of xrun.rollouts. Each loop over it begins at the first prompt.
struct RolloutSource {
  std::shared_ptr<DataHandle> prompts;  // its policy samples
  GroupQueueOptions queue;              // `groups` is the loop's
  LuaRef sampling;                      // options of policy:sample, a copy of the recipe's table
  LuaRef reward;                        // a function of a sample, or of a group's
  bool by_group = false;                // the second: score_groups
  LuaRef scoring;                       // options of rollouts:score
  LuaRef filter;                        // a function, or none
  PlannedAnswers answers;
};

// Answers that the recipe's loop over prompts will sample, by a table `sampling` in its
// configuration; nothing if there is none.
std::optional<PlannedAnswers> configured_answers(lua_State* L);

// Throws Error, where it is known how the loop samples, for a prompt that leaves no room for an
// answer and for an extra column with the name of a field of rollouts.
void check_prompts_fit(const StepLoop& loop, const StepSource& source);

// The line on rollouts of the report before step 0; "" if it is not known how a loop over prompts
// samples.
std::string describe_rollouts(const StepSource& source);

}  // namespace xrun

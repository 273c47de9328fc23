#pragma once
// xrun.rollouts: prompts, sampling and reward as a source of run:steps.

#include <cstdint>
#include <lua.hpp>
#include <memory>
#include <optional>
#include <string>

#include "core/rollout/group_queue.h"
#include "core/rollout/planned_answers.h"
#include "lua/bind/data/data_handle.h"
#include "lua/bind/rollout/reward_call.h"
#include "lua/state/lua_state.h"

namespace xrun {

// The arguments of xrun.rollouts. Each loop over it begins at the first prompt.
struct RolloutSource {
  std::shared_ptr<DataHandle> prompts;  // its policy samples
  GroupQueueOptions queue;              // `groups` is the loop's
  LuaRef sampling;                      // options of policy:sample, a copy of the recipe's table
  LuaRef reward;                        // a function of one sample, or of all samples of a group
  bool by_group = false;                // true: of a group (score_groups)
  RewardSettings scoring;               // of rollouts:score
  LuaRef filter;                        // a function, or none
  PlannedAnswers answers;
};

// Returns the answers that the recipe's loop over prompts will sample, from the table `sampling` in
// its configuration; nothing if there is none.
std::optional<PlannedAnswers> configured_answers(lua_State* L);

}  // namespace xrun

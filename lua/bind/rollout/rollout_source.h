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
  std::shared_ptr<DataHandle> prompts;  // their policy samples
  GroupQueueOptions queue;              // without `groups`, which the loop sets
  LuaRef sampling;                      // options of policy:sample, a copy of the recipe's table
  LuaRef reward;                        // a function of one sample, or of all samples of a group
  bool by_group = false;                // `reward` scores whole groups (score_groups)
  RewardSettings scoring;               // of rollouts:score
  LuaRef filter;                        // a function, or none
  PlannedAnswers answers;
};

// Returns the answers that a loop over prompts will sample, from `sampling` in the recipe's
// configuration; nothing without it.
std::optional<PlannedAnswers> configured_answers(lua_State* L);

}  // namespace xrun

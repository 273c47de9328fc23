#pragma once
// One call of a reward function: its result or its failure.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/config/config_field.h"
#include "lua/bind/rollout/sample_table.h"
#include "lua/state/doc.h"
#include "lua/state/lua_state.h"
#include "lua/state/worker_calls.h"

namespace xrun {

// In the order of the choices of sampling.on_error.
enum class FailedReward { kError, kMask, kZero };

struct RewardSettings {
  FailedReward on_error = FailedReward::kError;
  double deadline_s = kCallDeadlineS;  // of one call
  std::optional<double> pass = {};     // an answer passes if its reward is above it
};

// The options of rollouts:score that read_reward_settings reads.
std::vector<LuaOption> reward_options();

// Reads on_error, deadline_s and pass of the options at argument i. Throws UsageError for other
// values.
RewardSettings read_reward_settings(lua_State* L, int i = 3);
// The inverse: pushes the table of options.
void push_reward_settings(lua_State* L, const RewardSettings& settings);

// Calls the function below its one argument on the stack. Returns the failure, "" if there is none;
// the results are then on the stack. Throws Interrupted.
std::string call_with_deadline(lua_State* L, int results, double seconds);

// The result of a reward function for one rollout: a value and its parts, or the failure.
struct Reward {
  double value = 0;
  std::vector<std::pair<std::string, double>> parts = {};  // by name
  std::string failure = {};                                // "": there is none
};

// Returns the finite number at index i, which is `what` ("it", "the score"); sets reward.failure
// for anything else.
double read_reward_value(lua_State* L, int i, const std::string& what, Reward& reward);

// Calls the function with rollout i; both belong to the state L, a recipe's or a worker's. An
// error, a passed deadline and a value other than a finite number are the reward's failure. Throws
// Interrupted.
Reward call_reward(lua_State* L, const LuaRef& function, const SampleTable& samples, int64_t i,
                   const RewardSettings& settings);

// Calls the function with the list of a group's rollouts; returns one reward for each. A failure of
// the call is that of all of them.
std::vector<Reward> call_group_reward(lua_State* L, const LuaRef& function,
                                      const SampleTable& samples, const std::vector<int64_t>& group,
                                      const RewardSettings& settings);

// Returns true if the failure of a reward ends the run, so that no later one needs a call.
bool ends_scoring(const std::vector<Reward>& rewards, const RewardSettings& settings);

}  // namespace xrun

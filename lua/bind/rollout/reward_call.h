#pragma once
// Calls of a reward function: each gives a reward or a failure.

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

// The effect of a failed reward. In the order of the choices of sampling.on_error.
enum class FailedReward { kError, kMask, kZero };

struct RewardSettings {
  FailedReward on_error = FailedReward::kError;
  double deadline_s = kCallDeadlineS;  // of one call
  std::optional<double> pass = {};     // an answer passes if its reward is above it
};

// Returns the options of rollouts:score that read_reward_settings reads.
std::vector<LuaOption> reward_options();

// Reads on_error, deadline_s and pass from the options at argument i. Throws UsageError for a value
// that the config would not take.
RewardSettings read_reward_settings(lua_State* L, int i = 3);
// Pushes the table of options that read_reward_settings reads as `settings`.
void push_reward_settings(lua_State* L, const RewardSettings& settings);

// Calls the function below its one argument on the stack. Returns "" and leaves the results on the
// stack, or returns the failure in one line. Throws Interrupted.
std::string call_with_deadline(lua_State* L, int results, double seconds);

// The reward of one rollout: a value and its parts, or the failure.
struct Reward {
  double value = 0;
  std::vector<std::pair<std::string, double>> parts = {};  // by name
  std::string failure = {};                                // "": there is none
};

// Returns the number at index i. If it is not a finite number, returns 0 and sets reward.failure.
//   what  its name in the failure: "it", "the score"
double read_reward_value(lua_State* L, int i, const std::string& what, Reward& reward);

// Calls the function with rollout i. Function and samples belong to the state L, a recipe's or a
// worker's. An error, a passed deadline and a value that is not a finite number become the reward's
// failure. Throws Interrupted.
Reward call_reward(lua_State* L, const LuaRef& function, const SampleTable& samples, int64_t i,
                   const RewardSettings& settings);

// Calls the function with the list of a group's rollouts and returns one reward for each. If the
// call fails, all of them have its failure.
std::vector<Reward> call_group_reward(lua_State* L, const LuaRef& function,
                                      const SampleTable& samples, const std::vector<int64_t>& group,
                                      const RewardSettings& settings);

// Returns true if one of the rewards failed and that ends the run, so that no later call is needed.
bool ends_scoring(const std::vector<Reward>& rewards, const RewardSettings& settings);

}  // namespace xrun

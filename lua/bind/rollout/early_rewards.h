#pragma once
// Rewards of finished answers, made while others are still sampled.

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "lua/bind/rollout/reward_call.h"
#include "lua/bind/rollout/rollouts.h"
#include "lua/state/lua_state.h"
#include "lua/state/worker_calls.h"

namespace xrun {

// Scores finished answers on worker states. policy:sample adds the answers; rollouts:score takes
// the rewards, which equal those that it would compute itself.
class EarlyRewards {
 public:
  // Both outlive it.
  EarlyRewards(lua_State* L, const LuaRef& reward, const RewardSettings& settings, bool by_group);
  ~EarlyRewards();  // waits for the calls in progress
  EarlyRewards(const EarlyRewards&) = delete;
  EarlyRewards& operator=(const EarlyRewards&) = delete;
  static EarlyRewards* of(lua_State* L);  // null: there is none

  // Scores the answers of a prompt. Does nothing with one thread, or if no worker can run the
  // reward.
  void add(std::shared_ptr<Rollouts> group);
  int64_t called() const { return calls_ == nullptr ? 0 : calls_->called(); }
  // Waits for all rewards and fills `rewards`, whose size is the number of rollouts, or of groups.
  // Returns false, with nothing filled, if they were not made here.
  bool take(std::vector<std::vector<Reward>>& rewards);

 private:
  struct EarlyCall;
  bool call(lua_State* state, const LuaRef& function, int64_t index);

  lua_State* state_;
  const LuaRef& reward_;
  const RewardSettings settings_;
  const bool by_group_;
  bool begun_ = false;
  std::mutex mutex_;  // guards the list, not the calls
  std::vector<std::unique_ptr<EarlyCall>> early_;
  std::unique_ptr<WorkerCalls> calls_;  // last: its threads use the rest
};

}  // namespace xrun

// Each call scores one answer or one group. A call's record never moves in memory, so a worker
// fills it without holding the list's lock.

#include "lua/bind/rollout/early_rewards.h"

#include <ATen/Parallel.h>

#include <numeric>
#include <utility>

#include "lua/bind/session.h"

namespace xrun {

namespace {

struct PresentEarlyRewards {
  EarlyRewards* now = nullptr;
};

}  // namespace

// The answers to a prompt with their sample tables, shared by several calls.
struct FinishedGroup {
  FinishedGroup(std::shared_ptr<Rollouts> group, const Ledger& ledger)
      : rollouts(std::move(group)), samples(*rollouts, ledger) {}
  std::shared_ptr<Rollouts> rollouts;
  SampleTable samples;
};

struct EarlyRewards::EarlyCall {
  EarlyCall(std::shared_ptr<FinishedGroup> of, std::vector<int64_t> which)
      : group(std::move(of)), members(std::move(which)) {}
  std::shared_ptr<FinishedGroup> group;
  std::vector<int64_t> members;  // of the group
  std::vector<Reward> rewards = {};
};

EarlyRewards::EarlyRewards(lua_State* L, const LuaRef& reward, const RewardSettings& settings,
                           bool by_group)
    : state_(L), reward_(reward), settings_(settings), by_group_(by_group) {
  LuaState::of(L).service<PresentEarlyRewards>().now = this;
}

EarlyRewards::~EarlyRewards() { LuaState::of(state_).service<PresentEarlyRewards>().now = nullptr; }

EarlyRewards* EarlyRewards::of(lua_State* L) {
  return LuaState::of(L).service<PresentEarlyRewards>().now;
}

void EarlyRewards::add(std::shared_ptr<Rollouts> group) {
  const int64_t threads = at::get_num_threads();
  // Workers start with the first group: before it there may be nothing to score.
  if (!begun_ && threads > 1) {
    calls_ = WorkerCalls::begin(
        state_, reward_,
        [this](lua_State* L, const LuaRef& function, int64_t index) {
          return call(L, function, index);
        },
        threads);
  }
  begun_ = true;
  if (calls_ == nullptr) return;
  std::vector<int64_t> all(static_cast<size_t>(group->size()));
  std::iota(all.begin(), all.end(), 0);
  const auto finished =
      std::make_shared<FinishedGroup>(std::move(group), session_of(state_).data.ledger);
  int64_t calls = 0;
  {
    const std::lock_guard lock(mutex_);
    const size_t before = early_.size();
    if (by_group_) {
      early_.push_back(std::make_unique<EarlyCall>(finished, all));
    } else {
      for (const int64_t i : all)
        early_.push_back(std::make_unique<EarlyCall>(finished, std::vector{i}));
    }
    calls = static_cast<int64_t>(early_.size() - before);
  }
  // Outside the lock, which the workers take for each call.
  calls_->add(calls);
}

bool EarlyRewards::call(lua_State* state, const LuaRef& function, int64_t index) {
  EarlyCall* early = nullptr;
  {
    const std::lock_guard lock(mutex_);
    // The list may grow and move meanwhile; a call's record does not.
    early = early_[static_cast<size_t>(index)].get();
  }
  const SampleTable& samples = early->group->samples;
  if (by_group_) {
    early->rewards = call_group_reward(state, function, samples, early->members, settings_);
  } else {
    early->rewards = {call_reward(state, function, samples, early->members.front(), settings_)};
  }
  return ends_scoring(early->rewards, settings_);
}

bool EarlyRewards::take(std::vector<std::vector<Reward>>& rewards) {
  // Taken once: the next rollouts:score of the body scores other answers.
  const auto calls = std::move(calls_);
  if (calls == nullptr || early_.size() != rewards.size() || !calls->finish()) return false;
  for (size_t i = 0; i < rewards.size(); ++i) rewards[i] = std::move(early_[i]->rewards);
  return true;
}

}  // namespace xrun

// Rewards in Lua: a failed call affects its own sample or group, never the run, unless the recipe
// asks for that. Worker states make the calls where the function allows it
// (lua/state/worker_calls.h); their results are used in the order of the samples.

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>

#include "core/base/error.h"
#include "core/base/process_usage.h"
#include "core/base/strings.h"
#include "core/dist/agreement.h"
#include "core/dist/rank_message.h"
#include "core/dist/ranks.h"
#include "core/rollout/rollout_log.h"
#include "core/train/models/frozen_model.h"
#include "lua/bind/rollout/body_rollouts.h"
#include "lua/bind/rollout/early_rewards.h"
#include "lua/bind/rollout/reward_call.h"
#include "lua/bind/rollout/rollouts.h"
#include "lua/bind/rollout/sample_table.h"
#include "lua/bind/session.h"
#include "lua/state/args.h"
#include "lua/state/worker_calls.h"

namespace xrun {

namespace {

// Returns "prompts.jsonl:17: the reward of sample 3 failed: ...", with prompt and answer.
std::string failure_text(const Rollouts& rollouts, int64_t i, const std::string& failure) {
  const Rollout& one = *rollouts.rollouts()[static_cast<size_t>(i)];
  return fmt::format("{}: the reward of sample {} failed: {}\n  prompt: {}\n  answer: {}",
                     row_text(rollouts.info(), one.row), one.sample, failure,
                     shown_start(one.prompt_text), shown_start(one.text));
}

// Collects the rewards of a batch; on_error decides about failed ones.
class Scoring {
 public:
  Scoring(lua_State* L, const std::shared_ptr<Batch>& batch)
      : state_(L),
        began_(std::chrono::steady_clock::now()),
        batch_(batch),
        rollouts_(rollouts_of(*batch)),
        samples_(rollouts_, session_of(L).data.ledger),
        settings_(read_reward_settings(L)) {}

  const Rollouts& rollouts() const { return rollouts_; }
  const SampleTable& samples() const { return samples_; }
  const RewardSettings& settings() const { return settings_; }

  // Returns true if an environment failed in all of these: their rewards are 0 without a call.
  bool is_aborted(const std::vector<int64_t>& unit) const {
    return std::all_of(unit.begin(), unit.end(), [&](int64_t i) {
      return rollouts_.rollouts()[static_cast<size_t>(i)]->aborted();
    });
  }

  void set(int64_t i, Reward reward) {
    Rollout& one = *rollouts_.rollouts()[static_cast<size_t>(i)];
    // A second reward function replaces the results of the first.
    one.reward.reset();
    one.parts.clear();
    if (one.aborted()) reward = {};  // kept by on_error = "zero" of policy:sample
    if (!reward.failure.empty()) {
      const std::string text = failure_text(rollouts_, i, reward.failure);
      if (settings_.on_error == FailedReward::kError) {
        throw Error(text +
                    "\nhint: on_error = \"mask\" leaves such samples out, \"zero\" gives "
                    "them the reward 0");
      }
      if (failed_++ == 0) first_failure_ = text;
      if (settings_.on_error == FailedReward::kMask) return;
      reward = {};
    }
    one.reward = reward.value;
    one.parts = std::move(reward.parts);
    scored_.push_back(i);
  }

  // Pushes the scored rollouts: the same batch, or one without the masked samples.
  int push_scored() {
    if (BodyRollouts* body = body_rollouts(state_)) {
      body->reward_s += seconds_since(began_);
      body->failed_rewards += failed_;
      if (settings_.pass) body->pass = settings_.pass;
    }
    if (failed_ > 0) {
      session_of(state_).console->print_escaped(
          fmt::format("{} of {} failed and {}; the first:\n{}", failed_,
                      counted(std::ssize(rollouts_.rollouts()), "reward"),
                      settings_.on_error == FailedReward::kMask ? "are left out" : "count as 0",
                      first_failure_));
    }
    if (std::ssize(scored_) == rollouts_.size()) return push_with_rewards(batch_, rollouts_);
    const auto rest = rollouts_.subset(scored_);
    return push_with_rewards(rest, *rest);
  }

 private:
  int push_with_rewards(const std::shared_ptr<Batch>& batch, Rollouts& rollouts) {
    if (rollouts.vary_stand_ins()) {
      session_of(state_).notices.add(
          "the reward gave every random answer the same value, so the dry step takes random "
          "rewards");
    }
    rollouts.set_rewards();
    push(state_, batch);
    return 1;
  }

  lua_State* state_;
  std::chrono::steady_clock::time_point began_;
  std::shared_ptr<Batch> batch_;
  Rollouts& rollouts_;
  SampleTable samples_;
  RewardSettings settings_;
  std::vector<int64_t> scored_;
  int64_t failed_ = 0;
  std::string first_failure_;
};

// Rewards are first collected and then applied in the order of the samples, so that messages and
// the record do not depend on which worker was faster.
using Units = std::vector<std::vector<int64_t>>;       // rollouts that are scored together
using UnitRewards = std::vector<std::vector<Reward>>;  // by unit
using RewardCall = std::function<std::vector<Reward>(lua_State* state, const LuaRef& function,
                                                     const std::vector<int64_t>& unit)>;

// Returns the rewards of one unit from any state, without a call if its environment failed.
std::vector<Reward> unit_rewards(lua_State* L, const Scoring& scoring,
                                 const std::vector<int64_t>& unit, const LuaRef& function,
                                 const RewardCall& call) {
  if (scoring.is_aborted(unit)) return std::vector<Reward>(unit.size());
  return call(L, function, unit);
}

// Fills `rewards` on worker threads; returns false if the function cannot run there.
bool score_on_workers(lua_State* L, const Scoring& scoring, const Units& units,
                      const LuaRef& function, const RewardCall& call, UnitRewards& rewards) {
  EarlyRewards* const early = EarlyRewards::of(L);
  // Early rewards are not used if their number differs or a worker cannot run the function.
  if (early != nullptr && early->take(rewards)) return true;
  return call_on_workers(L, function, std::ssize(units),
                         [&](lua_State* state, const LuaRef& loaded, int64_t unit) {
                           const auto at = static_cast<size_t>(unit);
                           rewards[at] = unit_rewards(state, scoring, units[at], loaded, call);
                           return ends_scoring(rewards[at], scoring.settings());
                         });
}

// Fills `rewards` in the recipe's own state, one unit after another.
void score_in_recipe(lua_State* L, const Scoring& scoring, const Units& units,
                     const LuaRef& function, const RewardCall& call, UnitRewards& rewards) {
  for (size_t at = 0; at < units.size(); ++at) {
    check_stop(L);
    rewards[at] = unit_rewards(L, scoring, units[at], function, call);
    if (ends_scoring(rewards[at], scoring.settings())) break;
  }
}

void write_rewards(const UnitRewards& rewards, MessageWriter& out) {
  for (const std::vector<Reward>& unit : rewards) {
    out.int64(std::ssize(unit));
    for (const Reward& one : unit) {
      out.float64(one.value).string(one.failure).int64(std::ssize(one.parts));
      for (const auto& [name, value] : one.parts) out.string(name).float64(value);
    }
  }
}

void read_rewards(MessageReader& in, std::vector<Reward>& unit) {
  for (int64_t count = in.int64(); count > 0; --count) {
    Reward& one = unit.emplace_back();
    one.value = in.float64();
    one.failure = in.string();
    for (int64_t parts = in.int64(); parts > 0; --parts) {
      std::string name(in.string());
      one.parts.emplace_back(std::move(name), in.float64());
    }
  }
}

// Each rank scores the answers that it sampled, on its workers. A function that cannot run there
// may read and change the recipe's other values, so only the first rank calls it, for all units.
UnitRewards score_on_ranks(lua_State* L, const Scoring& scoring, const Units& units,
                           const LuaRef& function, const RewardCall& call, Ranks& ranks) {
  const auto owner = [&](const std::vector<int64_t>& unit) {
    const auto first = static_cast<size_t>(unit.front());
    // The rank that sampled the prompt (owns_prompt), which may have its early rewards.
    return scoring.rollouts().rollouts()[first]->prompt % ranks.size();
  };
  Units own;
  for (const std::vector<int64_t>& unit : units) {
    if (owner(unit) == ranks.rank()) own.push_back(unit);
  }
  std::vector<std::string> messages = gather_results(&ranks, "rewards", [&] {
    UnitRewards made(own.size());
    MessageWriter out;
    // A rank without answers can go either way.
    const bool done = own.empty() || score_on_workers(L, scoring, own, function, call, made);
    out.int64(done ? 1 : 0);
    if (done) write_rewards(made, out);
    return out.take();
  });
  std::vector<MessageReader> readers(messages.begin(), messages.end());
  bool done = true;
  // Reads from every message, so that each reader is at its rewards.
  for (MessageReader& in : readers) done = in.int64() != 0 && done;
  UnitRewards rewards(units.size());
  if (done) {
    for (size_t u = 0; u < units.size(); ++u) {
      read_rewards(readers[static_cast<size_t>(owner(units[u]))], rewards[u]);
    }
    return rewards;
  }
  const std::string all = from_first_rank(&ranks, "rewards of the first rank", [&] {
    UnitRewards made(units.size());
    MessageWriter out;
    score_in_recipe(L, scoring, units, function, call, made);
    write_rewards(made, out);
    return out.take();
  });
  MessageReader in(all);
  for (std::vector<Reward>& unit : rewards) read_rewards(in, unit);
  return rewards;
}

// Scores `units`, single rollouts or groups, with the function at index 2.
//   call  returns the rewards of one unit, from any state
int score_units(lua_State* L, Scoring& scoring, const Units& units, const RewardCall& call) {
  const LuaRef function = arg<LuaRef>(L, 2, "reward");
  UnitRewards rewards(units.size());
  if (Ranks* const ranks = scoring.rollouts().info().ranks) {
    rewards = score_on_ranks(L, scoring, units, function, call, *ranks);
  } else if (!score_on_workers(L, scoring, units, function, call, rewards)) {
    score_in_recipe(L, scoring, units, function, call, rewards);
  }
  for (size_t unit = 0; unit < units.size(); ++unit) {
    XRUN_CHECK(rewards[unit].size() == units[unit].size(), "answer {} got no reward",
               units[unit].front());
    for (size_t k = 0; k < units[unit].size(); ++k) {
      scoring.set(units[unit][k], std::move(rewards[unit][k]));
    }
  }
  return scoring.push_scored();
}

// Scores with a reward model: its score of each answer.
int score_by_model(lua_State* L, FrozenModel& model) {
  const auto batch = arg<std::shared_ptr<Batch>>(L, 1, "rollouts");
  Scoring scoring(L, batch);
  const at::Tensor scores = model.score(*batch).to(at::kCPU, at::kDouble).contiguous();
  for (int64_t i = 0; i < scores.numel(); ++i) {
    const double score = scores.const_data_ptr<double>()[i];
    Reward reward{.value = score};
    // Treated as a failed reward: on_error decides, not the model.
    if (!std::isfinite(score)) reward.failure = fmt::format("the model's score is {}", score);
    scoring.set(i, std::move(reward));
  }
  return scoring.push_scored();
}

}  // namespace

int score_rollouts(lua_State* L) {
  if (class_of(L, 2) == &class_info<FrozenModel>) {
    return score_by_model(L, arg<FrozenModel&>(L, 2, "reward"));
  }
  Scoring scoring(L, arg<std::shared_ptr<Batch>>(L, 1, "rollouts"));
  std::vector<std::vector<int64_t>> units;
  for (int64_t i = 0; i < scoring.rollouts().size(); ++i) units.push_back({i});
  return score_units(
      L, scoring, units,
      [&](lua_State* state, const LuaRef& function, const std::vector<int64_t>& unit) {
        return std::vector{
            call_reward(state, function, scoring.samples(), unit.front(), scoring.settings())};
      });
}

int score_rollout_groups(lua_State* L) {
  Scoring scoring(L, arg<std::shared_ptr<Batch>>(L, 1, "rollouts"));
  return score_units(
      L, scoring, scoring.rollouts().groups(),
      [&](lua_State* state, const LuaRef& function, const std::vector<int64_t>& unit) {
        return call_group_reward(state, function, scoring.samples(), unit, scoring.settings());
      });
}

}  // namespace xrun

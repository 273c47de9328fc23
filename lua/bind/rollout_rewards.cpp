// Rewards in Lua: each call has a deadline, and whatever goes wrong in it belongs to one sample (or
// one group), never to the run, unless the recipe says so.

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "core/base/error.h"
#include "core/base/process_usage.h"
#include "core/base/strings.h"
#include "core/console/terminal/shown_text.h"
#include "core/rollout/rollout_log.h"
#include "lua/bind/rollouts.h"
#include "lua/bind/run_loop.h"
#include "lua/state/args.h"
#include "lua/state/interruption.h"

namespace xrun {

BodyRollouts* body_rollouts(lua_State* L) {
  const auto& run = session_of(L).run;
  if (run == nullptr || !run->run().in_body()) return nullptr;
  if (run->rollouts == nullptr) run->rollouts = std::make_shared<BodyRollouts>();
  return run->rollouts.get();
}

Rollouts& rollouts_of(Batch& batch) {
  auto* rollouts = dynamic_cast<Rollouts*>(&batch);
  XRUN_CHECK(rollouts != nullptr,
             "this batch has rows of the data, wanted what policy:sample "
             "returned");
  return *rollouts;
}

FieldTable::FieldTable(const Batch& batch) {
  if (batch.micros().empty()) return;
  for (const std::string& name : batch.field_names()) {
    if (auto texts = batch.strings(name)) {
      texts_.emplace_back(name, std::move(*texts));
      continue;
    }
    bool by_row = false;
    batch.micros().front()->field(name, &by_row);
    if (by_row) continue;
    const at::Tensor values = batch.field(name).to(at::kCPU, at::kDouble).contiguous();
    const double* const data = values.const_data_ptr<double>();
    numbers_.emplace_back(name, std::vector<double>(data, data + values.numel()));
  }
}

void FieldTable::add_fields(lua_State* L, size_t i) const {
  for (const auto& [name, values] : numbers_) {
    push(L, values[i]);
    lua_setfield(L, -2, name.c_str());
  }
  for (const auto& [name, values] : texts_) {
    push(L, values[i]);
    lua_setfield(L, -2, name.c_str());
  }
}

void SampleTable::push_sample(lua_State* L, int64_t i) const {
  const auto at = static_cast<size_t>(i);
  const Rollout& one = *rollouts_.rollouts()[at];
  lua_createtable(L, 0, 12);
  const auto set = [&](const char* name, const auto& value) {
    push(L, value);
    lua_setfield(L, -2, name);
  };
  fields_.add_fields(L, at);
  set("index", one.sample);
  set("prompt_ids", *one.prompt_ids);
  set("ids", one.ids);
  if (one.turns.empty()) return;
  Json turns = Json::array();
  for (const RolloutTurn& turn : one.turns) {
    turns.push_back(Json(Json::Object{{"text", turn.text},
                                      {"finish", turn.finish},
                                      {"tool_calls", turn.calls},
                                      {"reply", turn.reply}}));
  }
  set("turns", turns);
}

RewardSettings read_reward_settings(lua_State* L) {
  const Options given(L, 3);
  RewardSettings settings;
  const std::string name = given.get<std::string>("on_error", "error");
  XRUN_CHECK(name == "error" || name == "mask" || name == "zero",
             "on_error is \"{}\", wanted \"error\", \"mask\" or \"zero\"", name);
  if (name == "mask") settings.on_error = FailedReward::kMask;
  if (name == "zero") settings.on_error = FailedReward::kZero;
  settings.deadline_s = given.get<double>("deadline_s", settings.deadline_s);
  XRUN_CHECK(settings.deadline_s > 0, "deadline_s is {}, wanted a number above 0",
             settings.deadline_s);
  return settings;
}

namespace {

// The result of a reward function for one rollout: a value and its parts, or the failure.
struct Reward {
  double value = 0;
  std::vector<std::pair<std::string, double>> parts = {};
  std::string failure = {};
};

// The finite number at index i; sets reward.failure for anything else.
double read_reward_value(lua_State* L, int i, const std::string& what, Reward& reward) {
  if (lua_type(L, i) == LUA_TNUMBER && std::isfinite(lua_tonumber(L, i))) return lua_tonumber(L, i);
  const bool number = lua_type(L, i) == LUA_TNUMBER;
  const double value = number ? lua_tonumber(L, i) : 0;
  reward.failure = fmt::format(
      "{} is {}, wanted a finite number", what,
      number ? fmt::format("{}", std::isnan(value) ? NAN : value) : describe_value(L, i));
  return 0;
}

void read_parts(lua_State* L, int i, Reward& reward) {
  if (lua_isnil(L, i)) return;
  if (!lua_istable(L, i)) {
    reward.failure =
        fmt::format("its second value is {}, wanted a table of its parts", describe_value(L, i));
    return;
  }
  for (lua_pushnil(L); lua_next(L, i) != 0; lua_pop(L, 1)) {
    if (lua_type(L, -2) != LUA_TSTRING) {
      reward.failure = "its parts have a key that is " + type_name(L, -2) + ", wanted names";
      lua_pop(L, 2);
      return;
    }
    const std::string name = lua_tostring(L, -2);
    const double value = read_reward_value(L, lua_gettop(L), "its part `" + name + "`", reward);
    reward.parts.emplace_back(name, value);
  }
  std::sort(reward.parts.begin(), reward.parts.end());
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

std::string call_with_deadline(lua_State* L, int results, double seconds) {
  const LuaDeadline deadline(L, seconds);
  try {
    protected_call(L, 1, results);
    return "";
  } catch (const Interrupted&) {
    throw;
  } catch (const LuaError& error) {
    const std::string position = error.report().position();
    return (position.empty() ? "" : position + ": ") + first_line(error.message());
  } catch (const Error& error) {
    return first_line(error.what());
  }
}

namespace {

Reward call_reward(lua_State* L, const LuaRef& function, const SampleTable& samples, int64_t i,
                   const RewardSettings& settings) {
  const StackGuard guard(L);
  function.push(L);
  samples.push_sample(L, i);
  Reward reward;
  reward.failure = call_with_deadline(L, 2, settings.deadline_s);
  if (!reward.failure.empty()) return reward;
  const int last = lua_gettop(L);
  reward.value = read_reward_value(L, last - 1, "it", reward);
  if (reward.failure.empty()) read_parts(L, last, reward);
  return reward;
}

}  // namespace

std::string shown_start(const std::string& text) {
  constexpr size_t kShownText = 200;  // bytes
  return text.size() <= kShownText ? shown_text(text)
                                   : shown_text(text.substr(0, kShownText)) + "...";
}

namespace {

// "prompts.jsonl:17: the reward of sample 3 failed: ...", with prompt and answer.
std::string failure_text(const Rollouts& rollouts, int64_t i, const std::string& failure) {
  const Rollout& one = *rollouts.rollouts()[static_cast<size_t>(i)];
  return fmt::format("{}: the reward of sample {} failed: {}\n  prompt: {}\n  answer: {}",
                     row_text(rollouts.info(), one.row), one.sample, failure,
                     shown_start(one.prompt_text), shown_start(one.text));
}

// Collects the rewards of a batch and applies the policy for failed ones.
class Scoring {
 public:
  Scoring(lua_State* L, const std::shared_ptr<Batch>& batch)
      : state_(L),
        began_(std::chrono::steady_clock::now()),
        batch_(batch),
        rollouts_(rollouts_of(*batch)),
        samples_(rollouts_),
        settings_(read_reward_settings(L)) {}

  const Rollouts& rollouts() const { return rollouts_; }
  const SampleTable& samples() const { return samples_; }
  const RewardSettings& settings() const { return settings_; }

  void set(int64_t i, Reward reward) {
    Rollout& one = *rollouts_.rollouts()[static_cast<size_t>(i)];
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
    }
    if (failed_ > 0) {
      session_of(state_).console->say(
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

}  // namespace

int score_rollouts(lua_State* L) {
  Scoring scoring(L, arg<std::shared_ptr<Batch>>(L, 1, "rollouts"));
  const LuaRef function = arg<LuaRef>(L, 2, "reward");
  for (int64_t i = 0; i < scoring.rollouts().size(); ++i) {
    check_interrupt(L);
    scoring.set(i, call_reward(L, function, scoring.samples(), i, scoring.settings()));
  }
  return scoring.push_scored();
}

namespace {

// The rewards of one group from a list of numbers at the top of the stack.
void read_group_rewards(lua_State* L, const std::vector<int64_t>& group, Scoring& scoring) {
  const int list = lua_gettop(L);
  const bool fits = lua_istable(L, list) && lua_objlen(L, list) == group.size();
  for (size_t k = 0; k < group.size(); ++k) {
    const StackGuard guard(L);
    Reward reward;
    if (fits) {
      lua_rawgeti(L, list, static_cast<int>(k) + 1);
      reward.value = read_reward_value(L, lua_gettop(L), fmt::format("number {}", k + 1), reward);
    } else {
      reward.failure =
          fmt::format("the function returned {}, wanted a list of {} numbers, one per sample",
                      lua_istable(L, list) ? fmt::format("{} values", lua_objlen(L, list))
                                           : describe_value(L, list),
                      group.size());
    }
    scoring.set(group[k], std::move(reward));
  }
}

}  // namespace

int score_rollout_groups(lua_State* L) {
  Scoring scoring(L, arg<std::shared_ptr<Batch>>(L, 1, "rollouts"));
  const LuaRef function = arg<LuaRef>(L, 2, "reward");
  for (const std::vector<int64_t>& group : scoring.rollouts().groups()) {
    check_interrupt(L);
    const StackGuard guard(L);
    function.push(L);
    lua_createtable(L, static_cast<int>(group.size()), 0);
    for (size_t k = 0; k < group.size(); ++k) {
      scoring.samples().push_sample(L, group[k]);
      lua_rawseti(L, -2, static_cast<int>(k) + 1);
    }
    const std::string failure = call_with_deadline(L, 1, scoring.settings().deadline_s);
    if (failure.empty()) {
      read_group_rewards(L, group, scoring);
      continue;
    }
    for (const int64_t i : group) scoring.set(i, {.failure = failure});
  }
  return scoring.push_scored();
}

}  // namespace xrun

// A reward function returns a number and, optionally, a table of its parts; a group's returns one
// number per sample.

#include "lua/bind/rollout/reward_call.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "lua/state/args.h"
#include "lua/state/interruption.h"

namespace xrun {

std::vector<LuaOption> reward_options() {
  return {{"on_error", "\"error\"|\"mask\"|\"zero\"", "error"},
          {"deadline_s", "number", RewardSettings().deadline_s},
          {"pass", "number"}};
}

RewardSettings read_reward_settings(lua_State* L, int i) {
  const Options given(L, i);
  RewardSettings settings;
  if (const auto name = given.find<std::string>("on_error")) {
    const ConfigField& field = *find_config_field("sampling.on_error");
    if (!fits(field, Json(*name))) {
      throw UsageError(fmt::format("on_error is \"{}\", wanted {}", *name, wanted_text(field)));
    }
    const auto choice = std::find(field.choices.begin(), field.choices.end(), *name);
    settings.on_error = static_cast<FailedReward>(choice - field.choices.begin());
  }
  // The options of an environment come from the config's `sampling` and have no defaults of their
  // own.
  settings.deadline_s = given.get<double>("deadline_s", settings.deadline_s);
  const ConfigField& deadline = *find_config_field("sampling.deadline_s");
  if (!fits(deadline, Json(settings.deadline_s))) {
    throw UsageError(
        fmt::format("deadline_s is {}, wanted {}", settings.deadline_s, wanted_text(deadline)));
  }
  settings.pass = given.find<double>("pass");
  return settings;
}

void push_reward_settings(lua_State* L, const RewardSettings& settings) {
  lua_createtable(L, 0, 3);
  set_field(
      L, "on_error",
      find_config_field("sampling.on_error")->choices[static_cast<size_t>(settings.on_error)]);
  set_field(L, "deadline_s", settings.deadline_s);
  if (settings.pass) set_field(L, "pass", *settings.pass);
}

double read_reward_value(lua_State* L, int i, const std::string& what, Reward& reward) {
  if (lua_type(L, i) == LUA_TNUMBER && std::isfinite(lua_tonumber(L, i))) return lua_tonumber(L, i);
  std::string got = describe_value(L, i);
  if (lua_type(L, i) == LUA_TNUMBER) {
    const double value = lua_tonumber(L, i);
    // NAN drops the sign that a NaN may have, so that no message says "-nan".
    got = fmt::format("{}", std::isnan(value) ? NAN : value);
  }
  const char* fix = "";
  if (lua_isboolean(L, i)) fix = "; write `return right and 1 or 0`";
  if (lua_isnil(L, i)) fix = "; is a `return` missing?";
  reward.failure = fmt::format("{} is {}, wanted a finite number{}", what, got, fix);
  return 0;
}

namespace {

void read_parts(lua_State* L, int i, Reward& reward) {
  if (lua_isnil(L, i)) return;
  if (!lua_istable(L, i)) {
    reward.failure =
        fmt::format("its second value is {}, wanted a table of its parts", describe_value(L, i));
    return;
  }
  std::string failed;  // the bad part whose name sorts first, since a table has no order
  for (lua_pushnil(L); lua_next(L, i) != 0; lua_pop(L, 1)) {
    if (lua_type(L, -2) != LUA_TSTRING) {
      reward.failure =
          "its parts have a key that is " + with_article(type_name(L, -2)) + ", wanted a string";
      lua_pop(L, 2);
      return;
    }
    const std::string name = lua_tostring(L, -2);
    Reward part;
    part.value = read_reward_value(L, lua_gettop(L), "its part `" + name + "`", part);
    if (!part.failure.empty() && (failed.empty() || name < failed)) {
      failed = name;
      reward.failure = part.failure;
    }
    reward.parts.emplace_back(name, part.value);
  }
  std::sort(reward.parts.begin(), reward.parts.end());
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

std::string call_with_deadline(lua_State* L, int results, double seconds) {
  // Without a deadline a reward that never returns would hang the run silently.
  const LuaDeadline deadline(L, seconds);
  try {
    protected_call(L, 1, results);
    return "";
  } catch (const LuaError& error) {
    const std::string position = error.report().position();
    // One line each: there may be thousands of failures.
    return (position.empty() ? "" : position + ": ") + first_line(error.message());
  } catch (const Error& error) {
    return first_line(error.what());
  }
}

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

namespace {

// Reads the rewards of one group: a list of numbers at the top of the stack, one per sample.
std::vector<Reward> read_group_rewards(lua_State* L, size_t size) {
  const int list = lua_gettop(L);
  const bool is_list = lua_istable(L, list) && lua_objlen(L, list) == size;
  std::vector<Reward> rewards(size);
  for (size_t k = 0; k < size; ++k) {
    const StackGuard guard(L);
    if (is_list) {
      lua_rawgeti(L, list, static_cast<int>(k) + 1);
      rewards[k].value =
          read_reward_value(L, lua_gettop(L), fmt::format("number {}", k + 1), rewards[k]);
    } else {
      rewards[k].failure =
          fmt::format("the function returned {}, wanted a list of {} numbers, one per sample",
                      lua_istable(L, list) ? fmt::format("{} values", lua_objlen(L, list))
                                           : describe_value(L, list),
                      size);
    }
  }
  return rewards;
}

}  // namespace

std::vector<Reward> call_group_reward(lua_State* L, const LuaRef& function,
                                      const SampleTable& samples, const std::vector<int64_t>& group,
                                      const RewardSettings& settings) {
  const StackGuard guard(L);
  function.push(L);
  lua_createtable(L, static_cast<int>(group.size()), 0);
  for (size_t k = 0; k < group.size(); ++k) {
    samples.push_sample(L, group[k]);
    lua_rawseti(L, -2, static_cast<int>(k) + 1);
  }
  // One call for the group, so its failure cannot be told apart by sample.
  const std::string failure = call_with_deadline(L, 1, settings.deadline_s);
  if (failure.empty()) return read_group_rewards(L, group.size());
  return std::vector<Reward>(group.size(), Reward{.failure = failure});
}

bool ends_scoring(const std::vector<Reward>& rewards, const RewardSettings& settings) {
  return settings.on_error == FailedReward::kError &&
         std::any_of(rewards.begin(), rewards.end(),
                     [](const Reward& reward) { return !reward.failure.empty(); });
}

}  // namespace xrun

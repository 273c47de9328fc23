// The sampling table is copied when the source is made. Otherwise a recipe that changes its table
// later would sample at one temperature and train at another.

#include "lua/bind/rollout/rollout_source.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/rollout/conversations.h"
#include "core/train/models/policy.h"
#include "lua/bind/modules.h"
#include "lua/bind/session.h"
#include "lua/state/args.h"

namespace xrun {

namespace {

// Reads a number of the sampling table at index i. The read is raw: a table of the config refuses
// other keys.
template <typename Number>
void read_number_member(lua_State* L, int i, const char* key, Number& value) {
  const StackGuard guard(L);
  lua_pushstring(L, key);
  lua_rawget(L, i);
  if (lua_isnil(L, -1)) return;
  value = arg<Number>(L, lua_gettop(L), fmt::format("sampling.{}", key).c_str());
}

bool has_member(lua_State* L, int i, const char* key) {
  const StackGuard guard(L);
  lua_pushstring(L, key);
  lua_rawget(L, i);
  return !lua_isnil(L, -1);
}

void read_sampling(lua_State* L, int i, RolloutSource& source) {
  PlannedAnswers& answers = source.answers;
  read_number_member(L, i, "samples", answers.samples);
  read_number_member(L, i, "max_tokens", answers.max_tokens);
  read_number_member(L, i, "temperature", answers.temperature);
  if (has_member(L, i, "environment")) {
    answers.turns = EnvironmentOptions().max_turns;
    read_number_member(L, i, "max_turns", answers.turns);
    answers.turns = std::max<int64_t>(answers.turns, 1);  // policy:sample refuses less
  }
  if (answers.samples < 2) {
    throw UsageError(fmt::format(
        "sampling.samples is {}: the rewards of a group vary only between two or more answers",
        answers.samples));
  }
  if (answers.max_tokens < 1) {
    throw UsageError(fmt::format(
        "sampling.max_tokens is {}, wanted 1 or more: a rollout trains the tokens of its "
        "answer",
        answers.max_tokens));
  }
  if (!(answers.temperature > 0)) {
    throw UsageError(fmt::format(
        "sampling.temperature is {:g}: greedy answers to one prompt are all the same, so no "
        "group has varied rewards; wanted a temperature above 0",
        answers.temperature));
  }
  const StackGuard guard(L);
  push_table_copy(L, i);
  source.sampling = LuaRef(L, -1);
}

void read_calls(lua_State* L, const Options& given, RolloutSource& source) {
  source.by_group = given.has("score_groups");
  for (const char* key : {"prompts", source.by_group ? "score_groups" : "reward"}) {
    XRUN_CHECK(given.has(key),
               "xrun.rollouts needs `{}`: xrun.rollouts {{ prompts = train, "
               "sampling = cfg.sampling, reward = reward }}",
               key);
  }
  XRUN_CHECK(!source.by_group || !given.has("reward"),
             "xrun.rollouts has `reward` and `score_groups`; a group is scored by one of them: "
             "leave one out");
  source.prompts = given.get<std::shared_ptr<DataHandle>>("prompts");
  source.reward = given.get<LuaRef>(source.by_group ? "score_groups" : "reward");
  source.scoring = read_reward_settings(L, 1);
  if (given.has("filter")) source.filter = given.get<LuaRef>("filter");
}

void read_queue(lua_State* L, const Options& given, GroupQueueOptions& queue) {
  queue.depth = given.get<int64_t>("depth");
  queue.round = given.get<int64_t>("round");
  queue.staleness = given.get<int64_t>("staleness", queue.staleness);
  queue.max_attempts = given.get<int64_t>("max_attempts");
  queue.eps = given.get<double>("eps");
  static_cast<void>(GroupQueue{queue});  // checks them
  if (queue.staleness >= queue.depth) return;
  session_of(L).notices.add(fmt::format(
      "warning: staleness = {0} is below depth = {1}: groups wait {1} steps, so some are dropped "
      "before they train; raise staleness to {1} or more, or lower depth",
      queue.staleness, queue.depth));
}

std::vector<LuaOption> source_options() {
  const GroupQueueOptions queue;
  std::vector<LuaOption> options = {{"prompts", "DataSet"},
                                    {"sampling", "xrun.Config.sampling"},
                                    {"reward", "function"},
                                    {"score_groups", "function"},
                                    {"filter", "function"}};
  for (LuaOption& option : reward_options()) options.push_back(std::move(option));
  options.insert(options.end(), {{"max_attempts", "integer", queue.max_attempts},
                                 {"eps", "number", queue.eps},
                                 {"round", "integer", queue.round},
                                 {"depth", "integer", queue.depth},
                                 {"staleness", "integer"}});
  return options;
}

int make_rollouts(lua_State* L) {
  const Options given(L, 1);
  auto source = std::make_shared<RolloutSource>();
  read_calls(L, given, *source);
  if (given.has("sampling")) {
    given.push_value("sampling");
  } else {
    lua_newtable(L);
  }
  XRUN_CHECK(lua_istable(L, -1), "sampling is {}, wanted the options of policy:sample in a table",
             type_name(L, -1));
  read_sampling(L, lua_gettop(L), *source);
  read_queue(L, given, source->queue);
  push(L, std::move(source));
  return 1;
}

}  // namespace

std::optional<PlannedAnswers> configured_answers(lua_State* L) {
  const Json* sampling = recipe_context(L).config.values().find("sampling");
  return sampling == nullptr ? std::nullopt : planned_answers(*sampling);
}

void open_rollout_source(LuaState& state) {
  Class<RolloutSource>(state, "RolloutSource",
                       "Prompts, sampling and reward as a source of run:steps, made by "
                       "xrun.rollouts.");
  state.function(
      "rollouts", {{"options", "table", source_options()}}, {"RolloutSource"},
      "A source for run:steps(source, { groups = 8, max_tokens }), whose batches are scored "
      "Rollouts: the policy of `prompts` answers them as policy:sample(prompts, sampling) does, "
      "`reward` scores them as rollouts:score with on_error, deadline_s and pass, or score_groups "
      "whole groups, and only samples for which filter(sample) is true stay, if it is given. The "
      "options of `sampling` are read once, here. A group whose rewards deviate by at most eps "
      "is left out and another prompt drawn, until `groups` are found (dynamic sampling); "
      "max_attempts such groups in a row are an error. `round` is the number of prompts "
      "sampled at a time, 0 for as many as groups are missing; surplus groups wait for the "
      "next step. depth steps are sampled ahead, with older weights; groups older than "
      "`staleness` updates (no limit) are dropped. Groups that wait are saved.",
      make_rollouts);
}

}  // namespace xrun

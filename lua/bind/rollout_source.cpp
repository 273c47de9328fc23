// A source samples through policy:sample and rollouts:score, called as the recipe would call them,
// so every option of theirs works here. The queue decides which groups make the batch.

#include "lua/bind/rollout_source.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/rollout/rollout_log.h"
#include "core/rollout/rollout_sampler.h"
#include "core/train/data_batch.h"
#include "core/train/policy.h"
#include "lua/bind/modules.h"
#include "lua/bind/rollouts.h"
#include "lua/bind/run_loop.h"
#include "lua/state/args.h"

namespace xrun {

namespace {

constexpr int64_t kDefaultTokens = 128;  // max_tokens of policy:sample
constexpr int64_t kDefaultSamples = 8;

// The stream of math.random in rewards; those of evaluations count up from 2.
constexpr int64_t kRewardStream = int64_t{1} << 32;

// Draws are named by (phase, index of the prompt in the loop's stream) in place of the step, far
// from the numbers of steps, so that policy:sample in the same body draws other answers.
int64_t draw_step(const StepLoop& loop, int64_t first) {
  return (int64_t{1} << 56) + (loop.phase << 40) + first;
}

// A number of the sampling table at index i; other kinds are left to policy:sample.
double number_member(lua_State* L, int i, const char* key, double otherwise) {
  const StackGuard guard(L);
  lua_getfield(L, i, key);
  return lua_type(L, -1) == LUA_TNUMBER ? lua_tonumber(L, -1) : otherwise;
}

void read_sampling(lua_State* L, int i, RolloutSource& source) {
  source.answers.samples =
      static_cast<int64_t>(number_member(L, i, "samples", static_cast<double>(kDefaultSamples)));
  source.answers.max_tokens =
      static_cast<int64_t>(number_member(L, i, "max_tokens", static_cast<double>(kDefaultTokens)));
  source.temperature = number_member(L, i, "temperature", 1);
  XRUN_CHECK(source.answers.samples >= 2,
             "sampling.samples is {}: the rewards of a group vary only between two or more answers",
             source.answers.samples);
  XRUN_CHECK(source.answers.max_tokens >= 1,
             "sampling.max_tokens is {}, wanted 1 or more: a rollout trains the tokens of its "
             "answer",
             source.answers.max_tokens);
  XRUN_CHECK(source.temperature > 0,
             "sampling.temperature is {:g}: greedy answers to one prompt are all the same, so no "
             "group has varied rewards; wanted a temperature above 0",
             source.temperature);
  source.sampling = LuaRef(L, i);
}

// { on_error, deadline_s } for rollouts:score, which checks the values.
LuaRef scoring_options(lua_State* L, const Options& given) {
  const StackGuard guard(L);
  lua_newtable(L);
  const int table = lua_gettop(L);
  for (const char* key : {"on_error", "deadline_s"}) {
    given.push_value(key);
    lua_setfield(L, table, key);
  }
  return LuaRef(L, table);
}

int make_rollouts(lua_State* L) {
  const Options given(L, 1);
  auto source = std::make_shared<RolloutSource>();
  for (const char* key : {"prompts", "reward"}) {
    XRUN_CHECK(given.has(key),
               "xrun.rollouts needs `{}`: xrun.rollouts {{ prompts = train, "
               "sampling = cfg.sampling, reward = reward }}",
               key);
  }
  source->prompts = given.get<std::shared_ptr<DataHandle>>("prompts");
  source->reward = given.get<LuaRef>("reward");
  source->scoring = scoring_options(L, given);
  if (given.has("sampling")) {
    given.push_value("sampling");
  } else {
    lua_newtable(L);
  }
  XRUN_CHECK(lua_istable(L, -1), "sampling is {}, wanted the options of policy:sample in a table",
             type_name(L, -1));
  read_sampling(L, lua_gettop(L), *source);
  GroupQueueOptions& queue = source->queue;
  queue.depth = given.get<int64_t>("depth", queue.depth);
  queue.round = given.get<int64_t>("round", queue.round);
  queue.staleness = given.get<int64_t>("staleness", queue.staleness);
  queue.max_attempts = given.get<int64_t>("max_attempts", queue.max_attempts);
  queue.eps = given.get<double>("eps", queue.eps);
  static_cast<void>(GroupQueue{queue});  // checks them
  push(L, std::move(source));
  return 1;
}

// The unit ids of prompts of the loop's stream, which goes round the set without end.
std::vector<int64_t> stream_units(const StepSource& source, int64_t first, int64_t count) {
  StepPlan plan = source.plan;
  plan.units = 1;
  plan.epochs = 0;
  std::vector<int64_t> units;
  for (int64_t i = first; i < first + count; ++i) {
    const std::vector<int64_t> one = source.data->set.step_units(plan, i);
    XRUN_CHECK(!one.empty(),
               "the stream of prompts ends after {}; a mixture that stops cannot "
               "fill batches of rollouts: set mixture.stop",
               counted(i, "prompt"));
    units.push_back(one.front());
  }
  return units;
}

// Calls policy:sample and rollouts:score; returns what they made of each prompt.
class PromptSampling {
 public:
  PromptSampling(lua_State* L, const StepLoop& loop, const StepSource& source, int64_t step)
      : state_(L), loop_(loop), source_(source), step_(step) {}

  SampledPrompts operator()(int64_t first, int64_t count) const {
    BatchInfo info = loop_.batch_info(step_, source_.data->policy->options().device, source_);
    info.step = draw_step(loop_, first);
    const std::shared_ptr<Batch> prompts =
        data_batch(source_.data->set, *source_.data->extra, stream_units(source_, first, count),
                   loop_.max_tokens, std::move(info));
    BodyRollouts& body = *body_rollouts(state_);
    const auto before = std::ssize(body.all);
    const std::shared_ptr<Batch> scored = sample_and_score(prompts);
    SampledPrompts sampled;
    // The queue decides in which body they are recorded.
    sampled.all.assign(body.all.begin() + before, body.all.end());
    body.all.erase(body.all.begin() + before, body.all.end());
    sampled.groups.resize(static_cast<size_t>(count));
    for (const auto& one : rollouts_of(*scored).rollouts()) {
      sampled.groups[static_cast<size_t>(one->prompt)].push_back(one);
    }
    return sampled;
  }

 private:
  std::shared_ptr<Batch> sample_and_score(const std::shared_ptr<Batch>& prompts) const {
    lua_State* const L = state_;
    const StackGuard guard(L);
    push(L, source_.data->policy);
    lua_getfield(L, -1, "sample");
    lua_insert(L, -2);
    push(L, prompts);
    source_.rollouts->sampling.push(L);
    protected_call(L, 3, 1);
    lua_getfield(L, -1, "score");
    lua_insert(L, -2);
    source_.rollouts->reward.push(L);
    source_.rollouts->scoring.push(L);
    protected_call(L, 3, 1);
    return arg<std::shared_ptr<Batch>>(L, lua_gettop(L), "rollouts");
  }

  lua_State* state_;
  const StepLoop& loop_;
  const StepSource& source_;
  int64_t step_;
};

// The batch of some groups, with the extra columns of their rows.
std::shared_ptr<Rollouts> batch_of(const std::vector<RolloutList>& groups, const StepLoop& loop,
                                   const StepSource& source, int64_t step) {
  Policy& policy = *source.data->policy;
  std::vector<int64_t> rows, of;
  RolloutList list;
  for (const RolloutList& group : groups) {
    for (const auto& one : group) {
      // A restored group has the experts, not the model that takes them.
      if (one->routes && !policy.is_replaced()) one->routed_by = &policy.model();
      list.push_back(one);
      of.push_back(std::ssize(rows));
    }
    rows.push_back(group.front()->row);
  }
  const c10::Device device = policy.options().device;
  const std::shared_ptr<Batch> prompts =
      data_batch(source.data->set, *source.data->extra, rows, loop.max_tokens,
                 loop.batch_info(step, device, source));
  auto batch = std::make_shared<Rollouts>(
      rollout_info(prompts->info(), policy, source.rollouts->temperature), std::move(list));
  batch->set_columns(*prompts, of);
  batch->set_rewards();
  if (policy.is_replaced()) batch->set_sampler_logprob(policy.token_logprob(*batch));
  return batch;
}

}  // namespace

std::shared_ptr<Batch> draw_rollouts(lua_State* L, RunLoop& run, const StepLoop& loop,
                                     StepSource& source, int64_t step) {
  run.seed_random(L, kRewardStream);
  BodyRollouts* const body = body_rollouts(L);
  XRUN_CHECK(body != nullptr, "rollouts are drawn outside a body");
  TakenGroups taken = source.queue->take(source.data->policy->update_count(),
                                         PromptSampling(L, loop, source, step));
  for (const RolloutList& group : taken.groups) {
    body->all.insert(body->all.end(), group.begin(), group.end());
  }
  body->all.insert(body->all.end(), taken.left_out.begin(), taken.left_out.end());
  body->counts = taken.counts;
  body->waiting = source.queue->waiting();
  return batch_of(taken.groups, loop, source, step);
}

std::function<Json()> queue_snapshot(const StepLoop& loop) {
  std::vector<std::optional<GroupQueue>> queues;
  for (const StepSource& source : loop.sources) {
    queues.push_back(source.queue ? std::optional(*source.queue) : std::nullopt);
  }
  return [queues = std::move(queues)] {
    Json states = Json::array();
    for (const auto& queue : queues) states.push_back(queue ? queue->state() : Json());
    return states;
  };
}

void restore_queues(StepLoop& loop, const Json& states) {
  for (size_t i = 0; i < loop.sources.size(); ++i) {
    StepSource& source = loop.sources[i];
    if (!source.queue) continue;
    GroupQueueOptions options = source.rollouts->queue;
    options.groups = source.plan.units;
    GroupQueue queue(options);
    if (states.is_array() && i < states.size() && !states.as_array()[i].is_null()) {
      queue.restore(states.as_array()[i]);
    }
    *source.queue = std::move(queue);
  }
}

std::optional<PlannedAnswers> configured_answers(lua_State* L) {
  const Json* sampling = recipe_context(L).config.values().find("sampling");
  if (sampling == nullptr || !sampling->is_object()) return std::nullopt;
  const auto count = [&](const char* key, int64_t otherwise) {
    const Json* value = sampling->find(key);
    return value != nullptr && value->is_int() ? value->as_int() : otherwise;
  };
  const PlannedAnswers answers{count("samples", kDefaultSamples),
                               count("max_tokens", kDefaultTokens)};
  if (answers.samples < 1 || answers.max_tokens < 1) return std::nullopt;
  return answers;
}

void check_prompts_fit(const StepLoop& loop, const StepSource& source) {
  if (!source.rollouts) return;
  const DataSet& set = source.data->set;
  const int64_t answer = source.answers->max_tokens;
  for (int64_t i = 0; i < set.size(); ++i) {
    const int64_t row = set.unit(i);
    // A row's length is an upper bound: it may have an answer.
    if (set.unit_tokens(row) + answer <= loop.max_tokens) continue;
    const auto prompt = std::ssize(set.prompt_ids(row));
    XRUN_CHECK(prompt + answer <= loop.max_tokens,
               "{}: a prompt of {} tokens and max_tokens = {} of an answer exceed "
               "batch.max_tokens = {}; raise it to {}, or lower sampling.max_tokens",
               set.location(row), count_text(prompt), count_text(answer),
               count_text(loop.max_tokens), count_text(prompt + answer));
  }
}

std::string describe_rollouts(const StepSource& source) {
  if (!source.answers) return "";
  const int64_t groups = source.plan.units, samples = source.answers->samples;
  std::string text = fmt::format("{} x {} = {} a step, at most {} each",
                                 counted(groups, source.rollouts ? "group" : "prompt"),
                                 counted(samples, "sample"), counted(groups * samples, "answer"),
                                 counted(source.answers->max_tokens, "token"));
  if (!source.rollouts) return text;
  const GroupQueueOptions& queue = source.rollouts->queue;
  text += fmt::format("; prompts are drawn until {} have rewards that deviate by more than {:g}",
                      counted(groups, "group"), queue.eps);
  if (queue.depth > 0) {
    text +=
        fmt::format("; sampled {} ahead, so their weights are older", counted(queue.depth, "step"));
  }
  return text;
}

void open_rollout_source(LuaState& state) {
  Class<RolloutSource>(state, "RolloutSource",
                       "Prompts, sampling and reward as a source of run:steps, made by "
                       "xrun.rollouts.");
  state.function(
      "rollouts",
      {{"options",
        "table",
        {"prompts", "sampling", "reward", "on_error", "deadline_s", "max_attempts", "eps", "round",
         "depth", "staleness"}}},
      {"RolloutSource"},
      "A source for run:steps(source, { groups = 8, max_tokens }), whose batches are scored "
      "Rollouts: the policy of `prompts` answers them as policy:sample(prompts, sampling) does, "
      "`reward` scores them as rollouts:score with on_error and deadline_s. A group whose rewards "
      "deviate by at most eps (1e-6) is left out and another prompt drawn, until `groups` are "
      "found (dynamic sampling); max_attempts (100) such groups in a row are an error. `round` is "
      "the number of prompts sampled at a time, by default as many as groups are missing; surplus "
      "groups wait for the next step. depth (0) steps are sampled ahead, with older weights; "
      "groups older than `staleness` updates (no limit) are dropped. What waits is saved.",
      make_rollouts);
}

}  // namespace xrun

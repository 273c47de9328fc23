// A source samples through policy:sample, rollouts:score and rollouts:filter, called as the recipe
// would call them, so all of their options work here; the reward runs early where it can
// (EarlyRewards). The queue decides which groups make the batch.

#include "lua/bind/run/rollout_draws.h"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/rollout/rollout_log.h"
#include "core/rollout/rollout_sampler.h"
#include "core/train/batches/data_batch.h"
#include "core/train/models/policy.h"
#include "lua/bind/rollout/body_rollouts.h"
#include "lua/bind/rollout/early_rewards.h"
#include "lua/bind/rollout/reward_call.h"
#include "lua/bind/rollout/rollouts.h"
#include "lua/bind/run/run_loop.h"
#include "lua/state/args.h"

namespace xrun {

namespace {

// The stream of math.random in rewards; those of evaluations count up from 2.
constexpr int64_t kRewardStream = int64_t{1} << 32;

// Returns the number that replaces the step in the seed of a draw: (phase, index of the prompt in
// the loop's stream), far from the numbers of steps, so that policy:sample in the same body draws
// other answers.
int64_t draw_step(const StepLoop& loop, int64_t first) {
  return (int64_t{1} << 56) + (loop.phase << 40) + first;
}

// Returns the unit ids of prompts from the loop's stream, which goes round the set without end.
// They are read in steps of the loop's own size, since stages of a mixture begin at steps.
std::vector<int64_t> stream_units(const StepSource& source, int64_t first, int64_t count) {
  StepPlan plan = source.plan;
  plan.epochs = 0;
  std::vector<int64_t> units, step;
  for (int64_t i = first; i < first + count; ++i) {
    const int64_t at = i % plan.units;
    if (i == first || at == 0) step = source.data->set.step_units(plan, i / plan.units);
    XRUN_CHECK(at < std::ssize(step),
               "the stream of prompts ends after {}; a mixture that stops cannot "
               "fill batches of rollouts: set mixture.stop",
               counted(i, "prompt"));
    units.push_back(step[static_cast<size_t>(at)]);
  }
  return units;
}

// Calls policy:sample, rollouts:score or score_groups, and filter. Returns the rollouts as sampled,
// and by prompt those that the filter left.
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
    const RolloutSource& source = *source_.rollouts;
    push_reward_settings(L, source.scoring);
    const LuaRef scoring(L, lua_gettop(L));
    // Answers that are finished are scored while the others are sampled.
    const EarlyRewards early(L, source.reward, source.scoring, source.by_group);
    push(L, source_.data->policy);
    lua_getfield(L, -1, "sample");
    lua_insert(L, -2);
    push(L, prompts);
    source.sampling.push(L);
    protected_call(L, 3, 1);
    call_method(source.by_group ? "score_groups" : "score", {&source.reward, &scoring});
    if (source.filter) filter();
    return arg<std::shared_ptr<Batch>>(L, lua_gettop(L), "rollouts");
  }

  // Calls a method of the rollouts on top of the stack, and puts its result in their place.
  void call_method(const char* name, std::initializer_list<const LuaRef*> arguments) const {
    lua_getfield(state_, -1, name);
    lua_insert(state_, -2);
    for (const LuaRef* argument : arguments) argument->push(state_);
    protected_call(state_, 1 + static_cast<int>(arguments.size()), 1);
  }

  // A filter may reject every random answer of a dry run, which then would have no batch.
  void filter() const {
    const bool dry = source_.data->policy->is_replaced();
    if (dry) {
      session_of(state_).notices.add(
          "the filter of xrun.rollouts got random answers, and the dry step takes all of them");
      lua_pushvalue(state_, -1);
    }
    call_method("filter", {&source_.rollouts->filter});
    if (dry) lua_pop(state_, 1);
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
  std::vector<int64_t> rows, group_of;
  RolloutList list;
  for (const RolloutList& group : groups) {
    for (const auto& one : group) {
      // A group from a checkpoint has the experts, but not the model that they belong to.
      if (one->routes) one->routed_by = policy.find_model();
      list.push_back(one);
      group_of.push_back(std::ssize(rows));
    }
    rows.push_back(group.front()->row);
  }
  const c10::Device device = policy.options().device;
  const std::shared_ptr<Batch> prompts =
      data_batch(source.data->set, *source.data->extra, rows, loop.max_tokens,
                 loop.batch_info(step, device, source));
  // A pair has two segments, the chosen side first.
  const int64_t segments = prompts->size() / std::ssize(rows);
  std::vector<int64_t> of;
  for (const int64_t group : group_of) of.push_back(group * segments);
  auto batch =
      rollout_batch(std::move(list), *prompts, of, policy, source.rollouts->answers.temperature);
  batch->set_rewards();
  return batch;
}

// Records the groups that one call of the queue took, with the samples of a group together: a
// masked sample is left out of the batch, but not of the record.
void record_groups(const TakenGroups& taken, int64_t waiting, const DataSet& set,
                   BodyRollouts& body) {
  const auto before = std::ssize(body.all);
  for (const RolloutList& group : taken.groups) {
    body.all.insert(body.all.end(), group.begin(), group.end());
  }
  body.all.insert(body.all.end(), taken.left_out.begin(), taken.left_out.end());
  // Checkpoints keep waiting groups without locations.
  for (auto one = body.all.begin() + before; one != body.all.end(); ++one) {
    (*one)->location = set.location((*one)->row);
  }
  std::stable_sort(body.all.begin() + before, body.all.end(), [](const auto& a, const auto& b) {
    return std::tie(a->prompt, a->sample) < std::tie(b->prompt, b->sample);
  });
  if (!body.counts) body.counts.emplace();
  body.counts->add(taken.counts);
  body.waiting += waiting;
}

}  // namespace

std::shared_ptr<Batch> draw_rollouts(lua_State* L, RunLoop& run, const StepLoop& loop,
                                     StepSource& source, int64_t step) {
  run.seed_random(L, kRewardStream);
  BodyRollouts* const body = body_rollouts(L);
  XRUN_CHECK(body != nullptr, "rollouts can only be drawn inside a body");
  const TakenGroups taken = source.queue->take(source.data->policy->update_count(),
                                               PromptSampling(L, loop, source, step));
  record_groups(taken, source.queue->waiting(), source.data->set, *body);
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

}  // namespace xrun

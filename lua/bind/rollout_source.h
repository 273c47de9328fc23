#pragma once
// xrun.rollouts: prompts, sampling and reward as a source of run:steps.

#include <cstdint>
#include <functional>
#include <lua.hpp>
#include <memory>
#include <optional>
#include <string>

#include "core/rollout/group_queue.h"
#include "lua/bind/data_handle.h"
#include "lua/state/lua_state.h"

namespace xrun {

class Batch;
class RunLoop;
struct StepLoop;
struct StepSource;

// The answers that a loop samples, as far as its plan needs them.
struct PlannedAnswers {
  int64_t samples = 0;     // of a prompt
  int64_t max_tokens = 0;  // of an answer
};

// The arguments of xrun.rollouts. Each loop over it begins at the first prompt.
struct RolloutSource {
  std::shared_ptr<DataHandle> prompts;  // its policy samples
  GroupQueueOptions queue;              // `groups` is the loop's
  LuaRef sampling;                      // options of policy:sample
  LuaRef reward;                        // a function
  LuaRef scoring;                       // options of rollouts:score
  PlannedAnswers answers;
  double temperature = 1;
};

// Samples the batch of the open body and records it there. Rewards draw from a seeded math.random.
std::shared_ptr<Batch> draw_rollouts(lua_State* L, RunLoop& run, const StepLoop& loop,
                                     StepSource& source, int64_t step);

// Returns the state of a loop's queues as they are now, one for each of its sources, as a function
// that a checkpoint calls later.
std::function<Json()> queue_snapshot(const StepLoop& loop);
// The inverse; null: as when the loop began.
void restore_queues(StepLoop& loop, const Json& states);

// Answers that the recipe's loop over prompts will sample, by `samples` and `max_tokens` of a table
// `sampling` in its configuration; nothing if there is none.
std::optional<PlannedAnswers> configured_answers(lua_State* L);

// Throws Error that names the first prompt that leaves no room for an answer of max_tokens in a
// micro-batch.
void check_prompts_fit(const StepLoop& loop, const StepSource& source);

// "8 groups x 4 samples = 32 answers a step; ..." for the report before step 0; "" if it is not
// known how a loop over prompts samples.
std::string describe_rollouts(const StepSource& source);

}  // namespace xrun

#pragma once
// The batches of xrun.rollouts: prompts are sampled, scored and queued until a batch is full.

#include <cstdint>
#include <functional>
#include <lua.hpp>
#include <memory>

#include "core/base/json.h"

namespace xrun {

class Batch;
class RunLoop;
struct StepLoop;
struct StepSource;

// Samples the batch of the open body and records it in that body. Rewards draw from a seeded
// math.random.
std::shared_ptr<Batch> draw_rollouts(lua_State* L, RunLoop& run, const StepLoop& loop,
                                     StepSource& source, int64_t step);

// Copies the loop's queues, one for each of its sources. A checkpoint calls the returned function
// later to get their state.
std::function<Json()> queue_snapshot(const StepLoop& loop);
// Restores the queues from such states; null: as when the loop began.
void restore_queues(StepLoop& loop, const Json& states);

}  // namespace xrun

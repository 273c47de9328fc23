#pragma once
// Shares rollouts between ranks, each of which samples the answers to its own prompts.

#include <cstdint>
#include <functional>

#include "core/rollout/rollouts.h"

namespace xrun {

class Ranks;

// Returns true if this rank samples and scores the answers to a prompt of a batch; null: one
// process.
bool owns_prompt(const Ranks* ranks, int64_t prompt);

// Runs `sample`, which returns the answers to this rank's prompts in the order (prompt, sample),
// and returns those of all ranks in that order. If sampling throws on one rank, all throw
// (core/dist/agreement.h). Without ranks, returns sample().
//   made  returns a rollout without its answer (new_rollout)
RolloutList share_rollouts(
    Ranks* ranks, const std::function<RolloutList()>& sample,
    const std::function<std::shared_ptr<Rollout>(int64_t prompt, int64_t sample)>& made);

}  // namespace xrun

#pragma once
// Shares rollouts between ranks, each of which samples the answers to its own prompts.

#include <cstdint>
#include <functional>

#include "core/rollout/rollouts.h"

namespace xrun {

class Ranks;

// Returns true if this rank samples and scores the answers to a prompt. Without ranks (null),
// always true.
bool owns_prompt(const Ranks* ranks, int64_t prompt);

// Runs `sample`, which returns the answers to this rank's prompts in the order (prompt, sample),
// and returns those of all ranks in that order. If sampling throws on one rank, all throw
// (core/dist/agreement.h). Without ranks, returns sample().
//   new_rollout  makes a rollout that has no answer yet
RolloutList share_rollouts(
    Ranks* ranks, const std::function<RolloutList()>& sample,
    const std::function<std::shared_ptr<Rollout>(int64_t prompt, int64_t sample)>& new_rollout);

}  // namespace xrun

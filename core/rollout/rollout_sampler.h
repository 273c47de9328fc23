#pragma once
// Samples rollouts: answers of a policy to the prompts of a batch.

#include <cstdint>
#include <memory>

#include "core/rollout/conversations.h"
#include "core/rollout/rollouts.h"
#include "core/rollout/text_sampler.h"

namespace xrun {

class Policy;

struct RolloutOptions {
  int64_t samples = 8;    // of each prompt
  TextOptions text = {};  // max_new_tokens of a turn, sampling and stop strings
  EnvironmentOptions environment = {};
};

// Samples answers to the prompts of a batch: of each sequence (of pairs the chosen one) the tokens
// before the first trained one. Draws depend on (seed, step, row, sample, position), so a resumed
// step repeats them; a row that occurs twice in the batch is drawn independently each time.
//   model  computes; the policy's own, or a copy of its weights on the CPU
// With an environment the prompts are those of a data set, and an answer may have several turns.
// A policy with a stand-in gives seeded random tokens whose log-probs are the stand-in's. Throws
// UsageError for options out of range, Error that names the row of a prompt that does not fit.
std::shared_ptr<Rollouts> sample_rollouts(Policy& policy, Model* model, const Batch& prompts,
                                          const RolloutOptions& options);

}  // namespace xrun

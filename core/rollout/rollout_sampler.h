#pragma once
// Samples rollouts: answers of a policy to the prompts of a batch.

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "core/rollout/conversations.h"
#include "core/rollout/rollouts.h"
#include "core/rollout/text_sampler.h"

namespace xrun {

class AnswerHistory;
class Policy;
class Tokenizer;

// The inputs of a draw besides the seed, the sample and the position. Under kRow a prompt that is
// sampled again draws the same numbers, so its answer changes only as far as the policy has: the
// answer of an earlier epoch is a draft that is mostly right, at the price of less exploration.
enum class DrawScope {
  kStep,  // step and row
  kRow,   // row
};

struct RolloutOptions {
  int64_t samples = kSamples;  // of each prompt
  TextOptions text = {};       // max_new_tokens of a turn, sampling and stop strings
  DrawScope draws = DrawScope::kStep;
  // Gives drafts and receives the answers; null: no drafts. Changes no answer.
  AnswerHistory* history = nullptr;
  // In training, a mixture of experts takes the sampler's experts for these tokens.
  bool replay_routes = false;
  EnvironmentOptions environment = {};
  // Called with the answers to each prompt once they and those to all prompts before it are
  // finished, while others may still be sampled. They are rollouts of the result, in their own
  // batch with the same fields. Not called for conversations and dry runs.
  std::function<void(std::shared_ptr<Rollouts> group)> finished = {};
};

// Samples answers to the prompts of a batch. A prompt is the tokens before the first trained one,
// of each sequence and of the chosen side of each pair. Draws depend on (seed, step, row, sample,
// position), without the step under DrawScope::kRow, so a resumed step repeats them; a row that
// occurs twice in the batch is drawn independently each time. Ranks that share the batch sample the
// answers to their own prompts, and each gets all of them.
//   model  computes; the policy's own, or a copy of its weights on the CPU
// With an environment the prompts are those of a data set, and an answer may have several turns.
// A policy with a stand-in gives seeded random tokens whose log-probs are the stand-in's. Throws
// UsageError for options out of range, Error that names the row of a prompt that does not fit.
std::shared_ptr<Rollouts> sample_rollouts(Policy& policy, Model* model, const Batch& prompts,
                                          const RolloutOptions& options);

// Returns answers to prompts as a batch, with the row weights and the columns of the prompts. The
// random tokens of a stand-in get the log-probs that it gives them.
//   temperature  of the sampling; greedy answers (0) report log-probs at temperature 1
//   of           [size of list], the segment of `prompts` that each answer belongs to
std::shared_ptr<Rollouts> rollout_batch(RolloutList list, const Batch& prompts,
                                        const std::vector<int64_t>& of, Policy& policy,
                                        double temperature);

// Returns a rollout without its answer, of the policy's present weights: sample `sample` of prompt
// number `prompt`.
std::shared_ptr<Rollout> new_rollout(const Policy& policy, int64_t row,
                                     std::shared_ptr<const std::vector<int32_t>> prompt_ids,
                                     int64_t prompt, int64_t sample);

// Returns an answer of a dry run: at most 16 random tokens, with log-probs of 0, that depend only
// on `seed`.
TextSample stand_in_answer(const Tokenizer& tokenizer, int64_t max_tokens, uint64_t seed);

}  // namespace xrun

#pragma once
// The sizes of a loop's largest micro-batch, for the plan of its memory.

#include <cstdint>
#include <vector>

#include "core/rollout/planned_answers.h"

namespace xrun {

struct StepLoop;

struct StepSizes {
  int64_t tokens = 0, loss_rows = 0;
  // If micro-batches share held prefixes: the most tokens of one without its prefix, and of a
  // prefix.
  int64_t rest_tokens = 0, prefix_tokens = 0;
  int64_t longest = 0;  // no unit of the sets has more tokens
  int64_t micros = 0;
  int64_t items = 0;  // of a step: micro-batches that share a held prefix count as one
  int64_t reference_tokens = 0, reference_rows = 0;  // of a canonical pack
  // If the loop samples answers: the lengths of the prompts of the step with the most prompt
  // tokens.
  std::vector<int64_t> prompts;
  PlannedAnswers answers;
  // The lengths of such a set's held-out prompts, each of which run:sample answers once.
  std::vector<int64_t> held_out;
};

// Returns the maximum over the loop's steps, or over an even sample of them. Answers that a step
// will sample are taken to be as long as they may be, without a common beginning.
StepSizes sizes_of(const StepLoop& loop);

}  // namespace xrun

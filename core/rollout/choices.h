#pragma once
// Log-probs of given continuations of a prompt, as multiple-choice evaluations compare them.

#include <cstdint>
#include <functional>
#include <vector>

namespace xrun {

class Model;

struct ChoiceQuestion {
  std::vector<int32_t> prompt;                // at least one id
  std::vector<std::vector<int32_t>> choices;  // continuations, each of at least one id
  std::vector<int64_t> bytes = {};            // [choices] bytes of their texts; empty: unknown
};

// The scores of one choice. The sum favours short choices; the other two correct for that.
struct ChoiceScore {
  std::vector<float> logprobs;  // of each token, given the prompt and the tokens before
  double sum = 0;               // in double, in the order of the tokens
  double mean = 0;              // sum / tokens
  double per_byte = 0;          // sum / bytes; 0 where bytes are unknown
};

struct ChoiceOptions {
  int64_t max_tokens = 4096;  // in one forward over questions; at least one question
  // Called before each forward; its exceptions propagate. By default a raised interrupt flag throws
  // Interrupted (interrupt.h).
  std::function<void()> poll = {};
};

// Returns the scores of every choice of every question. A prompt is computed once for all of its
// choices; the log-probs are those of each choice alone after its prompt, in fp32 bit for bit.
// Never records a graph. Throws Error that names the question and choice if ids are missing,
// outside the vocabulary or more than the model's limit, or if byte counts are below 1 or not one
// per choice.
std::vector<std::vector<ChoiceScore>> score_choices(Model& model,
                                                    const std::vector<ChoiceQuestion>& questions,
                                                    const ChoiceOptions& options = {});

}  // namespace xrun

#pragma once
// Choosing the next token: temperature, top k, top p, min p in transformers' order, by
// counter-based draws.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace xrun {

struct SamplingOptions {
  double temperature = 0;  // 0: the likeliest token, the lowest id among equals
  int64_t top_k = 0;       // 0: off. Exactly k stay; of equal logits the lowest ids
  double top_p = 1;        // the fewest tokens with a mass >= top_p stay, at least one
  double min_p = 0;        // what has less than min_p times the largest probability goes
  uint64_t seed = 0;

  bool truncates() const { return top_k > 0 || top_p < 1 || min_p > 0; }
};

// Throws UsageError (what, got, wanted) for a value out of range, and for a truncation of the
// greedy choice, which it could not change. `name` stands before each option: "--" or "".
void check_sampling(const SamplingOptions& options, const char* name = "");

// Names one draw; equal logits and an equal name give an equal token, whatever else is in the
// batch.
struct DrawKey {
  uint64_t prompt = 0;    // below 2^44
  uint32_t sample = 0;    // below 2^20
  uint64_t position = 0;  // of the new token in its sequence
};

struct Draw {
  int32_t id = 0;
  // log softmax(logits / T) over the whole vocabulary (T = 1 where temperature is 0)
  float logprob = 0;
  // the same over what top k, top p and min p left; equal to logprob where nothing is truncated
  float logprob_kept = 0;
};

// One token for each row: the first whose cumulative mass, ids rising, exceeds a uniform number's
// share of what is kept. Sums of probabilities are double, in an order that the width alone fixes.
//   logits  [n, V] fp32 on the CPU, contiguous, divided by the temperature afterwards
//   keys    [n]
// Throws UsageError for an option out of range; Error with the row's number if its logits have a
// NaN, an infinity, or nothing finite. -inf is legal: a token that is never drawn.
std::vector<Draw> draw_tokens(const at::Tensor& logits, std::span<const DrawKey> keys,
                              const SamplingOptions& options);

// The ids that options leave of one row of logits [V], rising. Throws as draw_tokens does.
std::vector<int32_t> kept_tokens(const at::Tensor& logits, const SamplingOptions& options);

}  // namespace xrun

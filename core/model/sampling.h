#pragma once
// Draws next tokens with counter-based random numbers. Temperature, top k, top p and min p apply in
// the order of transformers.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace xrun {

struct SamplingOptions {
  double temperature = 0;  // 0: the likeliest token, the lowest id among equals
  int64_t top_k = 0;       // exactly k tokens stay, of equal logits the lowest ids; 0: off
  double top_p = 1;        // the smallest set with a mass >= top_p stays, at least one token
  double min_p = 0;        // tokens below min_p times the largest probability are removed
  uint64_t seed = 0;

  bool operator==(const SamplingOptions&) const = default;
  bool truncates() const { return top_k > 0 || top_p < 1 || min_p > 0; }
};

// Throws UsageError for a value out of range, and for top k, top p or min p at temperature 0, where
// they have no effect. `name` is the prefix of each option: "--" or "".
void check_sampling(const SamplingOptions& options, const char* name = "");

// Identifies one draw: equal logits and equal keys give the same token, whatever else is in the
// batch.
struct DrawKey {
  uint64_t prompt = 0;    // below 2^44
  uint32_t sample = 0;    // below 2^20
  uint64_t position = 0;  // of the new token in its sequence
};

struct DrawnToken {
  int32_t id = 0;
  // log softmax(logits / T) over the whole vocabulary, with T = 1 at temperature 0
  float logprob = 0;
  // the same over the tokens left by top k, top p and min p; equal to logprob if these are off
  float logprob_kept = 0;
};

// Returns one token for each row: the first, in order of ids, whose cumulative mass exceeds a
// uniform random share of the kept mass. Probabilities are summed in double, in an order that
// depends only on V.
//   logits  [n, V] fp32 on the CPU, contiguous
//   keys    [n]
// A logit of -inf is legal; its token is never drawn. Throws UsageError as check_sampling, and
// Error, with the row's number, for a row with NaN, with +inf or without a finite logit.
std::vector<DrawnToken> draw_tokens(const at::Tensor& logits, std::span<const DrawKey> keys,
                                    const SamplingOptions& options);

// Returns the ids that the options keep of one row of logits [V], ascending. Throws as draw_tokens
// does.
std::vector<int32_t> kept_tokens(const at::Tensor& logits, const SamplingOptions& options);

}  // namespace xrun

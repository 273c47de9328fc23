#pragma once
// Philox4x32-10, the counter-based generator behind every random number of a run.
// Source: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3".

#include <array>
#include <cstdint>

namespace xrun {

// Returns four random words for a 128-bit counter under a key. A pure function: no state to save.
std::array<uint32_t, 4> philox(uint64_t key, uint64_t counter_high, uint64_t counter_low);

// Returns the 64 random bits of (seed, stream, a, b), such as (run seed, kStreamShuffle, epoch,
// round): the same on every thread and machine and in a resumed run.
uint64_t philox_u64(uint64_t seed, uint64_t stream, uint64_t a, uint64_t b);

// Returns the uniform double in [0, 1) of (seed, stream, a, b), with 53 random bits.
double philox_unit(uint64_t seed, uint64_t stream, uint64_t a, uint64_t b);

// The streams of a run. A new use takes a new number; a number is never reused, since runs resume
// with the numbers they began with.
enum RandomStream : uint64_t {
  kStreamShuffle = 1,
  // 2 was used by earlier versions.
  kStreamSplit = 3,
  kStreamInit = 4,
  kStreamMicro = 5,
  kStreamLua = 6,
  kStreamSample = 7,
  kStreamBody = 8,      // ATen's generator in a recipe, outside steps and evaluations
  kStreamEvaluate = 9,  // ATen's generator in each micro-batch of an evaluation
  kStreamBlockShuffle = 10,
  kStreamDropout = 11,
  kStreamAdapter = 12,
  kStreamStandIn = 13,  // log-probs and answers of a dry step
  kStreamRollout = 14,  // the seed from which a step's rollouts are drawn
  kStreamMinibatch = 15,
};

}  // namespace xrun

#pragma once
// Log-probs of every token of a pack, trained or not, for those who look at it.

#include <vector>

#include "core/data/packs/packed_batch.h"
#include "core/train/logprob_source.h"
#include "core/train/micro_batch.h"

namespace xrun {

// Returns log p of each token given those before it in its segment, [T]; NaN for the first token of
// a segment, which nothing predicts. One forward without gradient. `info` says whose data it is,
// and on which device.
std::vector<float> token_scores(LogprobSource& source, const PackedBatch& pack, BatchInfo info);

}  // namespace xrun

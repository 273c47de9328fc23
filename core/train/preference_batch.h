#pragma once
// Batches of preference pairs.

#include <cstdint>
#include <memory>
#include <vector>

#include "core/train/batch.h"

namespace xrun {

class PreferenceSet;

// Packs rows of a set into a batch whose order is that of `rows`. Fills info's unit, data_key and
// row_name; numeric kept columns become fields. Throws Error that names a row that is longer than
// max_tokens.
std::shared_ptr<Batch> preference_batch(const PreferenceSet& set, const std::vector<int64_t>& rows,
                                        int64_t max_tokens, BatchInfo info = {});

}  // namespace xrun

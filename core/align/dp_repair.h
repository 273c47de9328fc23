#pragma once
// The repairs that NeMo-RL's aligner makes after the dynamic programme.

#include <vector>

#include "core/align/dp_table.h"

namespace xrun {

struct JudgedSpan {
  DpSpan span;
  bool right;  // both sides have the same text after one more canonical_token() of each token
};

// Returns the pairs with runs of wrong ones fused, and short stretches around a wrong one aligned
// again where their texts agree. The pairs cover both sides, in order.
std::vector<JudgedSpan> repaired(const std::vector<DpSpan>& pairs, const CanonicalTokens& s,
                                 const CanonicalTokens& t, DpTable& segments);

}  // namespace xrun

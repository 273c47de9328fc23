#pragma once
// The repairs that NeMo-RL's aligner makes after the dynamic programme.

#include <vector>

#include "core/align/dp_table.h"

namespace xrun {

struct JudgedSpan {
  DpSpan span;
  bool correct;  // both sides have the same text after one more canonical_token() of each token
};

// Returns the pairs after both repairs: runs of wrong pairs are fused into one, and short stretches
// from a wrong pair on are aligned again where their texts agree.
//   pairs  cover student s and teacher t, in order, as the result does
//   table  of s and t
std::vector<JudgedSpan> repaired(const std::vector<DpSpan>& pairs, const CanonicalTokens& s,
                                 const CanonicalTokens& t, DpTable& table);

}  // namespace xrun

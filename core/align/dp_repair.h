#pragma once
// Repairs an alignment as NeMo-RL's aligner does after its dynamic programme.

#include <vector>

#include "core/align/dp_table.h"

namespace xrun {

struct JudgedSpan {
  DpSpan span;
  bool correct;  // both sides have the same text after one more canonical_token() of each token
};

// Returns the pairs after two repairs: runs of wrong pairs are fused into one, and short stretches
// that begin with a wrong pair are aligned again if their texts agree.
//   pairs  cover student s and teacher t in order, as the result does
//   table  of s and t
std::vector<JudgedSpan> repaired(const std::vector<DpSpan>& pairs, const CanonicalTokens& s,
                                 const CanonicalTokens& t, DpTable& table);

}  // namespace xrun

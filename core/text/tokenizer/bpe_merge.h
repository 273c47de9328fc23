#pragma once
// The merge loop of byte-pair encoding: the best-ranked pair of neighbours first, the leftmost of
// equals, until none is left.

#include <vector>

#include "core/text/tokenizer/merge_table.h"
#include "core/text/tokenizer/token_model.h"

namespace xrun {

// Merges the tokens of a piece in place. Both give the same result: by_scan is quadratic and wins
// for the few symbols of a word, by_heap takes n log n; merge_symbols chooses.
void merge_symbols(const MergeTable& merges, std::vector<ModelToken>& symbols);
void merge_by_scan(const MergeTable& merges, std::vector<ModelToken>& symbols);
void merge_by_heap(const MergeTable& merges, std::vector<ModelToken>& symbols);

}  // namespace xrun

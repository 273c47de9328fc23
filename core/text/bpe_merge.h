#pragma once
// The merge loop of byte-pair encoding: the best-ranked pair of neighbours first, the leftmost of
// equals, until none is left.

#include "core/text/merge_table.h"

#include <cstdint>
#include <vector>

namespace xrun {

// A token in the making and its bytes of the piece.
struct Symbol {
  int32_t id;
  uint32_t begin;
  uint32_t end;
};

// Merges in place. Both give the same result: by_scan is quadratic and wins for the few symbols of
// a word, by_heap takes n log n; merge_symbols chooses.
void merge_symbols(const MergeTable& merges, std::vector<Symbol>& symbols);
void merge_by_scan(const MergeTable& merges, std::vector<Symbol>& symbols);
void merge_by_heap(const MergeTable& merges, std::vector<Symbol>& symbols);

}  // namespace xrun

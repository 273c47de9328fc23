#pragma once
// The rows of a split: counts, held-out prompts, and ranges or lists of rows.

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace xrun {

// Returns the number of n rows that a fraction holds out: int(n * fraction), at least 1, at most n
// - 1; 0 if n <= 1 or fraction <= 0. Throws Error unless 0 <= fraction < 1.
int64_t held_out_count(int64_t n, double fraction);

// Returns one flag per row, 1 for a held-out row; rows of a prompt stay together. Prompts are taken
// in the order of a hash until held_out_count rows are reached, skipping those that would exceed
// it; if all would, the smallest is taken. At least one prompt remains. A pure function of the
// hashes: in another order of rows the same prompts are held out. O(n log n) time, 17 bytes per
// row. Throws Error if the rows (two or more) share one prompt and the fraction is not 0.
std::vector<uint8_t> hold_out_prompts(std::span<const uint64_t> prompt_hash, double fraction);

// The rows of a split in file order, source by source: a range, or a list after a split by prompt.
struct RowSelection {
  struct SourceRange {
    int64_t begin = 0;  // a range of the source's rows
    int64_t end = 0;
    std::vector<int64_t> rows;  // or, if `listed`, these
    bool listed = false;

    int64_t size() const { return listed ? static_cast<int64_t>(rows.size()) : end - begin; }
    int64_t at(int64_t i) const { return listed ? rows[static_cast<size_t>(i)] : begin + i; }
  };
  std::vector<SourceRange> ranges;  // one per source

  int64_t size() const;
  // Both return (kept, held out). Held out are the last held_out_count() rows of each source, or
  // the rows whose flag is set, one flag per row of size().
  std::pair<RowSelection, RowSelection> split_last(double fraction) const;
  std::pair<RowSelection, RowSelection> split_flagged(std::span<const uint8_t> held_out) const;
};

}  // namespace xrun

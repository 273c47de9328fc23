#pragma once
// Splits rows into those that train and those held out, by count or by prompt.

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace xrun {

// Returns how many of n rows a fraction holds out: int(n * fraction), at least 1 and at most n - 1;
// 0 if n <= 1 or fraction is 0. Throws UsageError unless 0 <= fraction < 1.
int64_t held_out_count(int64_t n, double fraction);

// Returns one flag per row, 1 for a held-out row. The rows of a prompt stay together. Prompts are
// taken in the order of a hash until held_out_count rows are reached, except those that would
// exceed it; if all would, the smallest is taken. At least one prompt remains. The order of the
// rows does not change which prompts are held out. O(n log n) time, 17 bytes per row. Throws Error
// if all rows (two or more) share one prompt and the fraction is not 0, and as held_out_count does.
std::vector<uint8_t> hold_out_prompts(std::span<const uint64_t> prompt_hash, double fraction);

// The rows of a split in file order, source by source: a range, or a list after a split by prompt.
struct RowSelection {
  struct SourceRange {
    int64_t begin = 0;  // the source's rows [begin, end) ...
    int64_t end = 0;
    std::vector<int64_t> rows;  // ... or, if `listed`, these
    bool listed = false;

    int64_t size() const { return listed ? static_cast<int64_t>(rows.size()) : end - begin; }
    int64_t at(int64_t i) const { return listed ? rows[static_cast<size_t>(i)] : begin + i; }
  };
  std::vector<SourceRange> ranges;  // one per source

  int64_t size() const;
  // Both return (kept, held out). split_last holds out the last held_out_count() rows of each
  // source; split_flagged holds out the rows whose flag is not 0, given one flag per row.
  std::pair<RowSelection, RowSelection> split_last(double fraction) const;
  std::pair<RowSelection, RowSelection> split_flagged(std::span<const uint8_t> held_out) const;
};

}  // namespace xrun

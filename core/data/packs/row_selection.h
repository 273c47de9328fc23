#pragma once
// Which rows of each source belong to a split.

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace xrun {

// The rows of a split in file order, a source at a time: a range of its rows, or a list where
// prompts decided. A plain value.
struct RowSelection {
  struct Part {
    int64_t begin = 0;  // a range of the source's rows
    int64_t end = 0;
    std::vector<int64_t> rows;  // or, if `listed`, these
    bool listed = false;

    int64_t size() const { return listed ? static_cast<int64_t>(rows.size()) : end - begin; }
    int64_t at(int64_t i) const { return listed ? rows[static_cast<size_t>(i)] : begin + i; }
  };
  std::vector<Part> parts;  // one a source

  int64_t size() const;
  // Both return (kept, held out): the last held_out_count() rows of each part; the rows whose flag
  // is set, one flag a row of size().
  std::pair<RowSelection, RowSelection> split_last(double fraction) const;
  std::pair<RowSelection, RowSelection> split_flagged(std::span<const uint8_t> held_out) const;
};

}  // namespace xrun

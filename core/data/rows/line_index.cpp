// A row that begins on line n (from 1) follows n - 1 line ends. So a position with fewer line ends
// precedes it, and one with exactly n - 1 only if it is the beginning of the line: an array may
// have many rows on one line.

#include "core/data/rows/line_index.h"

#include <algorithm>
#include <system_error>

namespace xrun {

// Called for every block; keeps at most one position per spacing_ bytes.
void LineIndex::add(const ContentCursor& after) {
  const std::lock_guard lock(mutex_);
  if (after.offset < (positions_.empty() ? 0 : positions_.back().offset) + spacing_) return;
  positions_.push_back(after);
  // Full: keep every second position, and half as many from now on.
  if (positions_.size() <= kMostPositions) return;
  size_t left = 0;
  for (size_t i = 1; i < positions_.size(); i += 2) positions_[left++] = positions_[i];
  positions_.resize(left);
  spacing_ *= 2;
}

ContentCursor LineIndex::before(int64_t line) const {
  const std::lock_guard lock(mutex_);
  const auto end =
      std::partition_point(positions_.begin(), positions_.end(), [&](const ContentCursor& at) {
        return at.lines < line - 1 || (at.lines == line - 1 && at.column == 0);
      });
  return end == positions_.begin() ? ContentCursor() : *(end - 1);
}

std::shared_ptr<LineIndex> LineIndexes::of(const std::string& path) {
  std::error_code missing;  // reported when the file is opened
  const uintmax_t bytes = std::filesystem::file_size(path, missing);
  const auto changed = std::filesystem::last_write_time(path, missing);
  const std::lock_guard lock(mutex_);
  // A file that has changed gets a new index: old positions would be inside other rows.
  Indexed& file = files_[path];
  if (file.index == nullptr || missing || file.bytes != bytes || file.changed != changed) {
    file = {bytes, changed, std::make_shared<LineIndex>()};
  }
  return file.index;
}

}  // namespace xrun

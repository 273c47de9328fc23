#pragma once
// Remembered positions in data files, from which a row can be read without the rows before it.

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/data/rows/row_splitter.h"

namespace xrun {

// The positions of one file, noted while it is read. Thread-safe.
class LineIndex {
 public:
  static constexpr uint64_t kSpacing = uint64_t{1} << 16;    // bytes between two positions at first
  static constexpr size_t kMostPositions = size_t{1} << 16;  // 2 MiB; beyond, half are forgotten

  // Notes the position after a row; ignored if closer than the spacing to the last noted one.
  void add(const ContentCursor& after);
  // Returns the last noted position that is before every row of this line (counted from 1); the
  // beginning of the file if there is none.
  ContentCursor before(int64_t line) const;

 private:
  mutable std::mutex mutex_;
  std::vector<ContentCursor> positions_;  // ascending
  uint64_t spacing_ = kSpacing;
};

// The indexes of the files of a data set. Thread-safe.
class LineIndexes {
 public:
  // Returns the index of a file; an empty one if the file's size or modification time has changed
  // since it was indexed.
  std::shared_ptr<LineIndex> of(const std::string& path);

 private:
  struct Indexed {
    uintmax_t bytes = 0;
    std::filesystem::file_time_type changed;
    std::shared_ptr<LineIndex> index;
  };
  std::mutex mutex_;
  std::map<std::string, Indexed> files_;
};

}  // namespace xrun

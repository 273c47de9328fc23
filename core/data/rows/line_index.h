#pragma once
// Positions in data files from which a row can be read without the rows before it.

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

  // Notes a position after a row. Ignored unless it is at least the spacing after the last one.
  void add(const ContentCursor& after);
  // Returns the last position that no row on this line (from 1) precedes: the beginning of the file
  // if none is noted.
  ContentCursor before(int64_t line) const;

 private:
  mutable std::mutex mutex_;
  std::vector<ContentCursor> positions_;  // ascending
  uint64_t spacing_ = kSpacing;
};

// The indexes of the files of a data set. Thread-safe.
class LineIndexes {
 public:
  // Returns the index of a file, an empty one where the file is not the one that was indexed: its
  // size or its time of change differs.
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

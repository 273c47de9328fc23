#pragma once
// Opens a finished token cache and gives the bytes of its columns, each page checked once.

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/data/cache/cache_manifest.h"
#include "core/data/cache/segment.h"
#include "core/data/cache/segment_file.h"

namespace xrun {

// Thread-safe after construction. Every accessor throws Error that names file, page and rows if a
// page it needs is damaged; a page is read and checked when it is first needed.
class CacheReader {
 public:
  // Checks the manifest and every segment's head and size; reads no rows. Throws Error if the
  // folder is no finished cache, or holds other row types than `row_type`.
  // "": any row type will do.
  explicit CacheReader(const std::filesystem::path& dir, const std::string& row_type = "");
  ~CacheReader();

  const CacheManifest& manifest() const { return manifest_; }
  const std::filesystem::path& dir() const { return dir_; }
  int64_t rows() const { return manifest_.rows(); }
  // Returns the index of a column. Throws Error that names it unless it has this type.
  size_t column(const std::string& name, ColumnType type) const;

  // A row inside its segment.
  struct Place {
    size_t segment;
    uint64_t row;
  };
  Place place(int64_t row) const;  // throws Error if it is out of range

  // A flat column's element; T has the column's size.
  template <typename T>
  T value(const Place& place, size_t column) const {
    T result;
    const SegmentFile& segment = *segments_[place.segment];
    std::memcpy(&result, segment.element(column, place.row, sizeof(T)), sizeof(T));
    return result;
  }

  // A jagged column's elements of one row.
  using Elements = SegmentFile::Elements;
  Elements elements(const Place& place, size_t column) const {
    return segments_[place.segment]->elements(place.row, column);
  }
  uint64_t count(const Place& place, size_t offsets_column) const {  // of elements of a row
    return segments_[place.segment]->count(place.row, offsets_column);
  }

  // Checks every page and the list of bad rows. Throws Error at the first damaged place;
  // Interrupted when the run is asked to stop. `progress` gets the bytes checked and all bytes.
  void verify(const std::function<void(uint64_t done, uint64_t total)>& progress = {}) const;

 private:
  void open_segment(const SegmentEntry& entry);
  void check_bad_rows_size() const;
  void verify_bad_rows() const;

  std::filesystem::path dir_;
  CacheManifest manifest_;
  std::vector<std::unique_ptr<const SegmentFile>> segments_;
  std::vector<int64_t> first_row_;  // of each segment
};

}  // namespace xrun

#pragma once
// Opens a finished token cache and gives the bytes of its columns, each page checked once.

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/data/cache_manifest.h"
#include "core/data/segment.h"

namespace xrun {

// Thread-safe after construction. Every accessor throws Error that names file, page and rows if a
// page it needs is damaged; a page is read and checked when it is first needed.
class CacheReader {
 public:
  // Checks the manifest and every segment's header and size; reads no rows. Throws Error if the
  // folder is no finished cache, or holds other row types than `row_type`.
  CacheReader(const std::filesystem::path& dir, const std::string& row_type);
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
    std::memcpy(&result, element(place, column, place.row, sizeof(T)), sizeof(T));
    return result;
  }

  // A jagged column's elements of one row. For kBits `data` holds bit `first_bit` to
  // first_bit + count, else the elements themselves.
  struct Elements {
    const char* data;
    uint64_t count;
    uint64_t first_bit;
  };
  Elements elements(const Place& place, size_t column) const;
  uint64_t count(const Place& place, size_t offsets_column) const;  // of elements of a row

  // Checks every page. Throws Error at the first damaged one.
  void verify() const;

 private:
  struct Segment;
  struct Range {
    uint64_t begin, end;  // elements
  };
  Range range(const Place& place, size_t offsets_column) const;
  const char* element(const Place& place, size_t column, uint64_t index, uint64_t bytes) const;
  void touch(size_t segment, uint64_t begin, uint64_t end) const;
  void check_page(size_t segment, uint64_t page) const;
  std::string rows_of_page(size_t segment, uint64_t page) const;
  void open_segment(const SegmentEntry& entry);

  std::filesystem::path dir_;
  CacheManifest manifest_;
  std::vector<std::unique_ptr<Segment>> segments_;
};

}  // namespace xrun

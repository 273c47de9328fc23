#pragma once
// A segment's file, mapped: gives the bytes of its columns, each page checked once.

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/file.h"
#include "core/data/cache/segment.h"

namespace xrun {

// Thread-safe after construction. What reads bytes throws Error that names file, page and rows if
// a page is damaged; a page is read and checked when it is first needed.
class SegmentFile {
 public:
  // Checks size and head, reads no rows. `columns` must outlive this. Throws Error that names the
  // file if it is another one than `expected`.
  struct Expected {
    uint64_t bytes, head_bytes, head_xxh3;
  };
  SegmentFile(const std::filesystem::path& path, std::span<const Column> columns,
              const Expected& expected);

  const std::string& name() const { return name_; }  // for messages
  const SegmentHeader& header() const { return header_; }

  // A jagged column's elements of one row. For kBits `data` holds bit `first_bit` to
  // first_bit + count, else the elements themselves.
  struct Elements {
    const char* data;
    uint64_t count;
    uint64_t first_bit;
  };
  Elements elements(uint64_t row, size_t column) const;
  uint64_t count(uint64_t row, size_t offsets_column) const;  // of elements of a row
  // The element `index` of a column whose elements have `bytes` bytes each.
  const char* element(size_t column, uint64_t index, uint64_t bytes) const;

  // Checks a page, touched before or not.
  void check_page(uint64_t page) const;
  // Gives pages read so far back to the system; they are read again when they are needed.
  void forget() const { map_.forget(); }

 private:
  struct Range {
    uint64_t begin, end;  // elements
  };
  Range range(uint64_t row, size_t offsets_column) const;
  void touch(uint64_t begin, uint64_t end) const;
  void check_untouched(uint64_t first, uint64_t last) const;
  std::string rows_of_page(uint64_t page) const;
  bool row_in_bytes(uint64_t row, size_t column, uint64_t begin, uint64_t end) const;

  std::string name_;
  std::span<const Column> columns_;
  MappedFile map_;
  uint64_t body_;  // where the pages begin
  SegmentHeader header_;
  mutable std::vector<std::atomic<uint64_t>> checked_;  // a bit a page
};

}  // namespace xrun

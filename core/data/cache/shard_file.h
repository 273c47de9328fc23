#pragma once
// Reads a mapped shard: the bytes of its columns, each page checked once.

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/mapped_file.h"
#include "core/data/cache/cache_manifest.h"
#include "core/data/cache/shard.h"

namespace xrun {

// Thread-safe after construction. A page is read and checked when it is first needed; every
// accessor throws Error that names file, page and rows if the page is damaged.
class ShardFile {
 public:
  // Checks size and head, reads no rows. `columns` must outlive this. Throws Error that names the
  // file if it differs from `expected`.
  struct Expected {
    uint64_t bytes, head_bytes, head_xxh3;
  };
  ShardFile(const std::filesystem::path& path, std::span<const Column> columns,
            const Expected& expected);

  const std::string& name() const { return name_; }  // for messages
  const ShardHeader& header() const { return header_; }

  // One row's elements in a jagged column, unaligned. For kBits they are the bits [first_bit,
  // first_bit + count) of `data`.
  struct Elements {
    const char* data;
    uint64_t count;
    uint64_t first_bit;
  };
  Elements elements(uint64_t row, size_t column) const;
  uint64_t count(uint64_t row, size_t offsets_column) const;  // of elements of a row
  // Returns element `index` of a column whose elements have `bytes` bytes each.
  const char* element(size_t column, uint64_t index, uint64_t bytes) const;

  // Checks a page, also one that was checked before.
  void check_page(uint64_t page) const;
  // Gives the memory of the pages read so far back to the system; they are read again when needed.
  void forget() const { map_.forget(); }

 private:
  struct JaggedRange {
    uint64_t begin, end;  // elements
  };
  JaggedRange range(uint64_t row, size_t offsets_column) const;
  void check_bytes(uint64_t begin, uint64_t end) const;
  std::string rows_of_page(uint64_t page) const;
  bool row_in_bytes(uint64_t row, size_t column, uint64_t begin, uint64_t end) const;

  std::string name_;
  std::span<const Column> columns_;
  MappedFile map_;
  uint64_t body_;  // offset of the first page
  ShardHeader header_;
  mutable std::vector<std::atomic<uint64_t>> checked_;  // one bit per page
};

// Writes and syncs the file of the shard that follows those in the manifest, and adds its entry to
// `manifest`. Nothing refers to the file before the caller writes the manifest. Throws Error.
void append_shard(const std::filesystem::path& dir, const ShardData& shard, SourceCursor cursor,
                  CacheManifest& manifest);

}  // namespace xrun

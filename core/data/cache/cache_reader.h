#pragma once
// Reads a finished token cache: the bytes of its columns, each page checked once.

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/data/cache/cache_manifest.h"
#include "core/data/cache/shard.h"
#include "core/data/cache/shard_file.h"

namespace xrun {

// Thread-safe after construction. A page is read and checked when it is first needed; every
// accessor throws Error that names file, page and rows if the page is damaged.
class CacheReader {
 public:
  // Checks the manifest and the head and size of every shard; reads no rows. Throws Error if the
  // folder is not a finished cache or if its rows are not of kind `row_type` ("": any).
  explicit CacheReader(const std::filesystem::path& dir, const std::string& row_type = "");
  ~CacheReader();

  const CacheManifest& manifest() const { return manifest_; }
  const std::filesystem::path& dir() const { return dir_; }
  int64_t rows() const { return manifest_.rows(); }
  // Returns the index of a column. Throws Error that names it if the cache has no such column of
  // this type.
  size_t column(const std::string& name, ColumnType type) const;

  // A row within its shard.
  struct ShardRow {
    size_t shard;
    uint64_t row;
  };
  ShardRow find(int64_t row) const;  // throws Error if it is out of range

  // Returns a row's element of a flat column. Requires that T has the size of an element.
  template <typename T>
  T value(const ShardRow& at, size_t column) const {
    T result;
    const ShardFile& shard = *shards_[at.shard];
    std::memcpy(&result, shard.element(column, at.row, sizeof(T)), sizeof(T));
    return result;
  }

  // Returns the elements of one row of a jagged column.
  using Elements = ShardFile::Elements;
  Elements elements(const ShardRow& at, size_t column) const {
    return shards_[at.shard]->elements(at.row, column);
  }
  uint64_t count(const ShardRow& at, size_t offsets_column) const {  // of elements of a row
    return shards_[at.shard]->count(at.row, offsets_column);
  }

  // Checks every page and the list of bad rows. Throws Error at the first damage, Interrupted on a
  // signal. `progress` gets the bytes checked so far and in total.
  void verify(const std::function<void(uint64_t done, uint64_t total)>& progress = {}) const;

 private:
  void open_shard(const ShardEntry& entry);
  void check_bad_rows_size() const;
  void verify_bad_rows() const;

  std::filesystem::path dir_;
  CacheManifest manifest_;
  std::vector<std::unique_ptr<const ShardFile>> shards_;
  std::vector<int64_t> first_row_;  // of each shard
};

}  // namespace xrun

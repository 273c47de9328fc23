#pragma once
// A column of values by row beside a finished cache: reference log-probs, alignments.
//
// A sidecar is a folder CACHE/columns/KEY in the format of a cache itself, with the one column
// "values" (and "offsets" where it is jagged), so its pages have checksums and its key names it.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "core/base/json.h"
#include "core/data/cache/cache_reader.h"
#include "core/data/cache/segment.h"

namespace xrun {

constexpr const char* kSidecarFolder = "columns";

// What a sidecar is: two that differ in any of these are two folders.
struct SidecarKey {
  std::string cache;  // the key of the cache it belongs to
  std::string name;   // "reference_logprobs"
  Json made_by;       // all that decides a value: digests, settings, versions

  Json document() const;
};

// An open sidecar. Thread-safe after open. Reading throws Error that names file, page and rows if a
// page is damaged.
class Sidecar {
 public:
  // Returns nullptr if there is none. Throws Error if it is damaged, belongs to another cache or
  // key than its folder says, or has other rows than the cache of `cache_dir`, whose manifest says
  // `rows`.
  static std::unique_ptr<const Sidecar> open(const std::filesystem::path& cache_dir,
                                             const SidecarKey& key, int64_t rows);

  int64_t rows() const { return reader_.rows(); }
  // A flat column's value; T has the size of the column's type.
  template <typename T>
  T value(int64_t row) const {
    return reader_.value<T>(reader_.place(row), values_);
  }
  // A jagged column's values of one row, which need not be aligned.
  CacheReader::Elements elements(int64_t row) const {
    return reader_.elements(reader_.place(row), values_);
  }
  void verify() const { reader_.verify(); }

 private:
  explicit Sidecar(const std::filesystem::path& dir);
  CacheReader reader_;
  size_t values_ = 0;
};

// Checks every byte of all sidecars of a cache of `rows` rows. Throws Error at the first one that
// is damaged, belongs to another cache or has other rows; Interrupted.
void verify_sidecars(const std::filesystem::path& cache_dir, int64_t rows);

// Writes a sidecar row by row; it is there whole after finish(), or not at all. One writer a
// sidecar at a time: a second one waits. Memory is bounded by a segment. Not thread-safe.
class SidecarWriter {
 public:
  // Throws Error on a file failure, Interrupted while it waits.
  SidecarWriter(const std::filesystem::path& cache_dir, const SidecarKey& key, ColumnType type,
                bool jagged, uint64_t segment_bytes = uint64_t{64} << 20);
  ~SidecarWriter();

  // Adds the next row: one value, or those of a jagged row. T is the column's type exactly.
  template <typename T>
  void add(T value) {
    segment_.push<T>(0, value);
    end_row();
  }
  template <typename T>
  void add_row(std::span<const T> values) {
    for (const T value : values) segment_.push<T>(1, value);
    segment_.push_offset(0, 1);
    end_row();
  }
  // Makes the sidecar durable and visible. Throws Error unless `rows` rows were added.
  void finish(int64_t rows);

 private:
  void end_row();
  void commit();

  std::filesystem::path dir_, temporary_;
  FileLock lock_;
  CacheManifest manifest_;
  SegmentData segment_;
  uint64_t segment_bytes_;
};

}  // namespace xrun

// Checks the manifest against its own checksum and the heads of the shards against the manifest;
// ShardFile checks the pages.

#include "core/data/cache/cache_reader.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/base/interrupt.h"

namespace xrun {

namespace fs = std::filesystem;

CacheReader::CacheReader(const fs::path& dir, const std::string& row_type) : dir_(dir) {
  std::error_code code;
  XRUN_CHECK(fs::exists(dir / kManifestName, code), "{}: is not a finished cache: it has no {}{}",
             dir.string(), kManifestName,
             fs::exists(dir / kPartialName, code) ? "; its build was interrupted, the next run "
                                                    "continues it"
                                                  : "");
  manifest_ = read_manifest(dir, kManifestName);
  XRUN_CHECK(row_type.empty() || manifest_.row_type == row_type,
             "{}: holds {} rows, wanted {} rows", dir.string(), manifest_.row_type, row_type);
  // Every shard is mapped and its head checked now, so that a missing or cut file is found before
  // step 0.
  for (const ShardEntry& entry : manifest_.shards) open_shard(entry);
  check_bad_rows_size();
  if (manifest_.bad_rows.bytes > 0) manifest_.ledger.bad_rows_file = (dir / kBadRowsName).string();
}

CacheReader::~CacheReader() = default;

void CacheReader::open_shard(const ShardEntry& entry) {
  auto shard = std::make_unique<const ShardFile>(
      dir_ / entry.file, manifest_.columns,
      ShardFile::Expected{entry.bytes, entry.head_bytes, entry.head_xxh3});
  const ShardHeader& header = shard->header();
  // A shard of another cache may be intact in itself.
  XRUN_CHECK(header.key == manifest_.key && header.index == shards_.size() &&
                 header.rows == static_cast<uint64_t>(entry.rows) &&
                 header.first_row == static_cast<uint64_t>(entry.first_row),
             "{}: is shard {} of cache {} with {} rows from row {} on; the manifest names another",
             shard->name(), header.index, header.key, header.rows, header.first_row);
  for (size_t c = 0; c < header.columns.size(); ++c) {
    XRUN_CHECK(header.columns[c].elements == static_cast<uint64_t>(entry.elements[c]),
               "{}: column {} has {} elements, the manifest says {}", shard->name(), c,
               header.columns[c].elements, entry.elements[c]);
  }
  first_row_.push_back(entry.first_row);
  shards_.push_back(std::move(shard));
}

// Checks only the size; verify() reads the file.
void CacheReader::check_bad_rows_size() const {
  if (manifest_.bad_rows.bytes == 0) return;
  const fs::path path = dir_ / kBadRowsName;
  std::error_code code;
  const uint64_t bytes = fs::file_size(path, code);
  XRUN_CHECK(!code && bytes == manifest_.bad_rows.bytes,
             "{}: has {} bytes, the manifest says {}; {}", path.string(), code ? 0 : bytes,
             manifest_.bad_rows.bytes, kRebuildHint);
}

// Compares the type too: the vocabulary decides whether ids have 16 or 32 bits.
size_t CacheReader::column(const std::string& name, ColumnType type) const {
  for (size_t c = 0; c < manifest_.columns.size(); ++c) {
    const Column& column = manifest_.columns[c];
    if (column.name == name && column.type == type) return c;
  }
  throw Error(fmt::format("{}: has no column \"{}\" of type {}", dir_.string(), name,
                          column_type_name(type)));
}

CacheReader::ShardRow CacheReader::find(int64_t row) const {
  XRUN_CHECK(row >= 0 && row < rows(), "{}: row {} is out of range, the cache has {}",
             dir_.string(), row, rows());
  // Shards are never empty, so first rows strictly ascend.
  const auto next = std::upper_bound(first_row_.begin(), first_row_.end(), row);
  const size_t shard = static_cast<size_t>(next - first_row_.begin()) - 1;
  return {shard, static_cast<uint64_t>(row - first_row_[shard])};
}

void CacheReader::verify(const std::function<void(uint64_t, uint64_t)>& progress) const {
  uint64_t total = manifest_.bad_rows.bytes;
  uint64_t done = 0;
  for (const ShardEntry& entry : manifest_.shards) total += entry.bytes;
  for (const auto& shard : shards_) {
    for (uint64_t page = 0; page < shard->header().pages; ++page) {
      check_interrupt();
      shard->check_page(page);
      if (progress)
        progress(done + std::min((page + 1) * kPageBytes, shard->header().file_bytes), total);
    }
    done += shard->header().file_bytes;
    // Otherwise verifying a large cache would push everything else out of the page cache.
    shard->forget();
  }
  verify_bad_rows();
  if (progress) progress(total, total);
}

// The list is only for people to read, so its contents are not checked anywhere else.
void CacheReader::verify_bad_rows() const {
  if (manifest_.bad_rows.bytes == 0) return;
  const fs::path path = dir_ / kBadRowsName;
  const std::string got = hash_file_pieces(path, [](uint64_t) { check_interrupt(); });
  XRUN_CHECK(got == manifest_.bad_rows.xxh3,
             "{}: is damaged: its checksum is {}, the manifest says {}; {}", path.string(), got,
             manifest_.bad_rows.xxh3, kRebuildHint);
}

}  // namespace xrun

// The manifest by its own checksum, a segment's head by the manifest; pages are segment_file.h's.

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
  XRUN_CHECK(fs::exists(dir / kManifestName, code), "{}: is no finished cache: it has no {}{}",
             dir.string(), kManifestName,
             fs::exists(dir / kPartialName, code) ? "; its build was interrupted, the next run "
                                                    "goes on with it"
                                                  : "");
  manifest_ = read_manifest(dir, kManifestName);
  XRUN_CHECK(row_type.empty() || manifest_.row_type == row_type,
             "{}: holds {} rows, wanted {} rows", dir.string(), manifest_.row_type, row_type);
  for (const SegmentEntry& entry : manifest_.segments) open_segment(entry);
  check_bad_rows_size();
  if (manifest_.bad_rows.bytes > 0) manifest_.ledger.bad_rows_file = (dir / kBadRowsName).string();
}

CacheReader::~CacheReader() = default;

void CacheReader::open_segment(const SegmentEntry& entry) {
  auto segment = std::make_unique<const SegmentFile>(
      dir_ / entry.file, manifest_.columns,
      SegmentFile::Expected{entry.bytes, entry.head_bytes, entry.head_xxh3});
  const SegmentHeader& header = segment->header();
  XRUN_CHECK(header.key == manifest_.key && header.index == segments_.size() &&
                 header.rows == static_cast<uint64_t>(entry.rows) &&
                 header.first_row == static_cast<uint64_t>(entry.first_row),
             "{}: is segment {} of cache {} with rows {} to {}; the manifest wants another",
             segment->name(), header.index, header.key, header.first_row,
             header.first_row + header.rows);
  for (size_t c = 0; c < header.columns.size(); ++c) {
    XRUN_CHECK(header.columns[c].elements == static_cast<uint64_t>(entry.elements[c]),
               "{}: column {} has {} elements, the manifest says {}", segment->name(), c,
               header.columns[c].elements, entry.elements[c]);
  }
  first_row_.push_back(entry.first_row);
  segments_.push_back(std::move(segment));
}

void CacheReader::check_bad_rows_size() const {
  if (manifest_.bad_rows.bytes == 0) return;
  const fs::path path = dir_ / kBadRowsName;
  std::error_code code;
  const uint64_t bytes = fs::file_size(path, code);
  XRUN_CHECK(!code && bytes == manifest_.bad_rows.bytes,
             "{}: has {} bytes, the manifest says {}; remove the folder and the next run builds it "
             "anew",
             path.string(), code ? 0 : bytes, manifest_.bad_rows.bytes);
}

size_t CacheReader::column(const std::string& name, ColumnType type) const {
  for (size_t c = 0; c < manifest_.columns.size(); ++c) {
    const Column& column = manifest_.columns[c];
    if (column.name == name && column.type == type) return c;
  }
  throw Error(fmt::format("{}: has no column \"{}\" of type {}", dir_.string(), name,
                          column_type_name(type)));
}

CacheReader::Place CacheReader::place(int64_t row) const {
  XRUN_CHECK(row >= 0 && row < rows(), "{}: row {} is out of range, the cache has {}",
             dir_.string(), row, rows());
  const auto next = std::upper_bound(first_row_.begin(), first_row_.end(), row);
  const size_t segment = static_cast<size_t>(next - first_row_.begin()) - 1;
  return {segment, static_cast<uint64_t>(row - first_row_[segment])};
}

void CacheReader::verify(const std::function<void(uint64_t, uint64_t)>& progress) const {
  uint64_t total = manifest_.bad_rows.bytes;
  uint64_t done = 0;
  for (const SegmentEntry& entry : manifest_.segments) total += entry.bytes;
  for (const auto& segment : segments_) {
    for (uint64_t page = 0; page < segment->header().pages; ++page) {
      check_interrupt();
      segment->check_page(page);
      if (progress)
        progress(done + std::min((page + 1) * kPageBytes, segment->header().file_bytes), total);
    }
    done += segment->header().file_bytes;
    segment->forget();
  }
  verify_bad_rows();
  if (progress) progress(total, total);
}

void CacheReader::verify_bad_rows() const {
  if (manifest_.bad_rows.bytes == 0) return;
  const fs::path path = dir_ / kBadRowsName;
  const std::string got = hash_file_pieces(path, [](uint64_t) { check_interrupt(); });
  XRUN_CHECK(got == manifest_.bad_rows.xxh3,
             "{}: is damaged: its checksum is {}, the manifest says {}; remove the folder and the "
             "next run builds it anew",
             path.string(), got, manifest_.bad_rows.xxh3);
}

}  // namespace xrun

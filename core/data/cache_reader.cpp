// Nothing is believed before it is checked: the manifest by its own checksum, a header by the
// manifest, a page by the manifest, offsets by the size of their column.

#include "core/data/cache_reader.h"

#include <algorithm>
#include <atomic>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/hash.h"

namespace xrun {

namespace fs = std::filesystem;

struct CacheReader::Segment {
  std::string name;  // of the file, for messages
  MappedFile map;
  SegmentHeader header;
  std::vector<std::atomic<bool>> checked;  // a page

  Segment(const fs::path& path, uint64_t pages) : name(path.string()), map(path), checked(pages) {}
};

CacheReader::CacheReader(const fs::path& dir, const std::string& row_type) : dir_(dir) {
  std::error_code code;
  XRUN_CHECK(fs::exists(dir / kManifestName, code), "{}: is no finished cache: it has no {}{}",
             dir.string(), kManifestName,
             fs::exists(dir / kPartialName, code) ? "; its build was interrupted, the next run "
                                                    "goes on with it"
                                                  : "");
  manifest_ = read_manifest(dir, kManifestName);
  XRUN_CHECK(manifest_.row_type == row_type, "{}: holds {} rows, wanted {} rows", dir.string(),
             manifest_.row_type, row_type);
  for (const SegmentEntry& entry : manifest_.segments) open_segment(entry);
}

CacheReader::~CacheReader() = default;

void CacheReader::open_segment(const SegmentEntry& entry) {
  auto segment = std::make_unique<Segment>(dir_ / entry.file, entry.page_xxh3.size());
  const std::string_view bytes = segment->map.bytes();
  XRUN_CHECK(bytes.size() == entry.bytes,
             "{}: has {} bytes, the manifest says {}; remove the folder and the next run builds it "
             "anew",
             segment->name, bytes.size(), entry.bytes);
  const uint64_t header_bytes = segment_header_bytes(manifest_.columns.size());
  XRUN_CHECK(hash_u64(bytes.substr(0, header_bytes)) == entry.header_xxh3,
             "{}: its header (bytes 0 to {}) is damaged; remove the folder and the next run builds "
             "it anew",
             segment->name, header_bytes);
  segment->header = read_segment_header(bytes, bytes.size(), manifest_.columns, segment->name);
  const SegmentHeader& header = segment->header;
  XRUN_CHECK(header.key == manifest_.key && header.index == segments_.size() &&
                 header.rows == static_cast<uint64_t>(entry.rows) &&
                 header.first_row == static_cast<uint64_t>(entry.first_row),
             "{}: is segment {} of cache {} with rows {} to {}; the manifest wants another",
             segment->name, header.index, header.key, header.first_row,
             header.first_row + header.rows);
  for (size_t c = 0; c < header.columns.size(); ++c) {
    XRUN_CHECK(header.columns[c].elements == static_cast<uint64_t>(entry.elements[c]),
               "{}: column {} has {} elements, the manifest says {}", segment->name, c,
               header.columns[c].elements, entry.elements[c]);
  }
  segments_.push_back(std::move(segment));
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
  const auto next = std::upper_bound(
      manifest_.segments.begin(), manifest_.segments.end(), row,
      [](int64_t value, const SegmentEntry& entry) { return value < entry.first_row; });
  const size_t segment = static_cast<size_t>(next - manifest_.segments.begin()) - 1;
  return {segment, static_cast<uint64_t>(row - manifest_.segments[segment].first_row)};
}

const char* CacheReader::element(const Place& place, size_t column, uint64_t index,
                                 uint64_t bytes) const {
  const Segment& segment = *segments_[place.segment];
  const ColumnSpan& span = segment.header.columns[column];
  XRUN_CHECK(index < span.elements && bytes == column_bytes(manifest_.columns[column].type, 1),
             "{}: column {} has {} elements, element {} was asked for", segment.name, column,
             span.elements, index);
  const uint64_t at = span.begin + index * bytes;
  touch(place.segment, at, at + bytes);
  return segment.map.bytes().data() + at;
}

CacheReader::Range CacheReader::range(const Place& place, size_t offsets_column) const {
  int64_t begin = 0;
  int64_t end = 0;
  std::memcpy(&begin, element(place, offsets_column, place.row, 8), 8);
  std::memcpy(&end, element(place, offsets_column, place.row + 1, 8), 8);
  XRUN_CHECK(begin >= 0 && begin <= end, "{}: the offsets of row {} run backwards: {} to {}",
             segments_[place.segment]->name, place.row, begin, end);
  return {static_cast<uint64_t>(begin), static_cast<uint64_t>(end)};
}

uint64_t CacheReader::count(const Place& place, size_t offsets_column) const {
  const Range found = range(place, offsets_column);
  return found.end - found.begin;
}

CacheReader::Elements CacheReader::elements(const Place& place, size_t column) const {
  const Segment& segment = *segments_[place.segment];
  const Column& schema = manifest_.columns[column];
  const ColumnSpan& span = segment.header.columns[column];
  const Range found = range(place, static_cast<size_t>(schema.offsets));
  XRUN_CHECK(found.end <= span.elements,
             "{}: the offsets of row {} end at {}, column \"{}\" has {} elements", segment.name,
             place.row, found.end, schema.name, span.elements);
  const bool bits = schema.type == ColumnType::kBits;
  const uint64_t begin =
      span.begin + (bits ? found.begin / 8 : column_bytes(schema.type, found.begin));
  const uint64_t end = span.begin + column_bytes(schema.type, found.end);
  if (found.end > found.begin) touch(place.segment, begin, end);
  return {segment.map.bytes().data() + begin, found.end - found.begin, bits ? found.begin % 8 : 0};
}

void CacheReader::touch(size_t segment, uint64_t begin, uint64_t end) const {
  for (uint64_t page = begin / kPageBytes; page <= (end - 1) / kPageBytes; ++page) {
    std::atomic<bool>& checked = segments_[segment]->checked[page];
    if (checked.load(std::memory_order_acquire)) continue;
    check_page(segment, page);
    checked.store(true, std::memory_order_release);
  }
}

void CacheReader::check_page(size_t segment, uint64_t page) const {
  const Segment& file = *segments_[segment];
  const std::string_view bytes = file.map.bytes().substr(page * kPageBytes, kPageBytes);
  const uint64_t got = hash_u64(bytes);
  const uint64_t want = manifest_.segments[segment].page_xxh3[page];
  XRUN_CHECK(got == want,
             "{}: page {} (bytes {} to {}, {}) is damaged: its checksum is {:016x}, the manifest "
             "says {:016x}; remove the folder and the next run builds it anew",
             file.name, page, page * kPageBytes, page * kPageBytes + bytes.size(),
             rows_of_page(segment, page), got, want);
}

// The page is damaged, so its offsets may be: they only narrow the answer if they lie elsewhere.
std::string CacheReader::rows_of_page(size_t segment, uint64_t page) const {
  const Segment& file = *segments_[segment];
  const SegmentHeader& header = file.header;
  const uint64_t page_begin = page * kPageBytes;
  const uint64_t page_end = page_begin + kPageBytes;
  const auto overlaps = [&](size_t c) {
    const uint64_t begin = header.columns[c].begin;
    const uint64_t size = column_bytes(manifest_.columns[c].type, header.columns[c].elements);
    return begin < page_end && begin + size > page_begin;
  };
  uint64_t first = header.rows;
  uint64_t last = 0;
  for (size_t c = 0; c < header.columns.size(); ++c) {
    if (!overlaps(c)) continue;
    const Column& schema = manifest_.columns[c];
    const bool known = schema.offsets >= 0 && !overlaps(static_cast<size_t>(schema.offsets));
    if (!known) {
      first = 0;
      last = header.rows - 1;
      break;
    }
    const uint64_t begin = header.columns[c].begin;
    const char* offsets =
        file.map.bytes().data() + header.columns[static_cast<size_t>(schema.offsets)].begin;
    for (uint64_t row = 0; row < header.rows; ++row) {
      uint64_t ends[2];
      std::memcpy(ends, offsets + 8 * row, sizeof(ends));
      if (begin + column_bytes(schema.type, ends[0]) >= page_end ||
          begin + column_bytes(schema.type, ends[1]) <= page_begin) {
        continue;
      }
      first = std::min(first, row);
      last = std::max(last, row);
    }
  }
  return fmt::format("rows {} to {}", header.first_row + first, header.first_row + last);
}

void CacheReader::verify() const {
  for (size_t s = 0; s < segments_.size(); ++s) {
    for (uint64_t page = 0; page < manifest_.segments[s].page_xxh3.size(); ++page) {
      check_page(s, page);
    }
  }
}

}  // namespace xrun

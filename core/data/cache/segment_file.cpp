// Nothing is believed before it is checked: the head by the manifest, a page by the head, offsets
// by the size of their column.

#include "core/data/cache/segment_file.h"

#include <algorithm>
#include <cstring>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/hash.h"

namespace xrun {

namespace {

constexpr const char* kWayOut = "remove the folder and the next run builds it anew";

const std::filesystem::path& require_there(const std::filesystem::path& path) {
  XRUN_CHECK(path_exists(path), "{}: is not there, and the manifest names it; {}", path.string(),
             kWayOut);
  return path;
}

}  // namespace

SegmentFile::SegmentFile(const std::filesystem::path& path, std::span<const Column> columns,
                         const Expected& expected)
    : name_(path.string()),
      columns_(columns),
      map_(require_there(path)),
      body_(expected.head_bytes) {
  const std::string_view all = map_.bytes();
  XRUN_CHECK(all.size() == expected.bytes, "{}: has {} bytes, the manifest says {}; {}", name_,
             all.size(), expected.bytes, kWayOut);
  XRUN_CHECK(body_ <= all.size() && hash_u64(all.substr(0, body_)) == expected.head_xxh3,
             "{}: its head (bytes 0 to {}) is damaged; {}", name_, body_, kWayOut);
  header_ = read_segment_header(all, columns, name_);
  XRUN_CHECK(header_.head_bytes() == body_, "{}: has a head of {} bytes, the manifest says {}; {}",
             name_, header_.head_bytes(), body_, kWayOut);
  checked_ = std::vector<std::atomic<uint64_t>>((header_.pages + 63) / 64);
}

const char* SegmentFile::element(size_t column, uint64_t index, uint64_t bytes) const {
  const ColumnSpan& span = header_.columns[column];
  XRUN_CHECK(index < span.elements && bytes == column_bytes(columns_[column].type, 1),
             "{}: column {} has {} elements, element {} was asked for", name_, column,
             span.elements, index);
  const uint64_t at = span.begin + index * bytes;
  touch(at, at + bytes);
  return map_.bytes().data() + at;
}

SegmentFile::Range SegmentFile::range(uint64_t row, size_t offsets_column) const {
  int64_t begin = 0;
  int64_t end = 0;
  std::memcpy(&begin, element(offsets_column, row, 8), 8);
  std::memcpy(&end, element(offsets_column, row + 1, 8), 8);
  XRUN_CHECK(begin >= 0 && begin <= end, "{}: the offsets of row {} run backwards: {} to {}", name_,
             row, begin, end);
  return {static_cast<uint64_t>(begin), static_cast<uint64_t>(end)};
}

uint64_t SegmentFile::count(uint64_t row, size_t offsets_column) const {
  const Range found = range(row, offsets_column);
  return found.end - found.begin;
}

SegmentFile::Elements SegmentFile::elements(uint64_t row, size_t column) const {
  const Column& schema = columns_[column];
  const ColumnSpan& span = header_.columns[column];
  const Range found = range(row, static_cast<size_t>(schema.offsets));
  XRUN_CHECK(found.end <= span.elements, "{}: row {} ends at element {} of column {}, which has {}",
             name_, row, found.end, column, span.elements);
  const bool bits = schema.type == ColumnType::kBits;
  const uint64_t begin = bits ? found.begin / 8 : column_bytes(schema.type, found.begin);
  const uint64_t end = column_bytes(schema.type, found.end);
  if (end > begin) touch(span.begin + begin, span.begin + end);
  return {map_.bytes().data() + span.begin + begin, found.end - found.begin,
          bits ? found.begin % 8 : 0};
}

// One bit test a page where it is checked already.
void SegmentFile::touch(uint64_t begin, uint64_t end) const {
  const uint64_t first = (begin - body_) / kPageBytes;
  const uint64_t last = (end - 1 - body_) / kPageBytes;
  for (uint64_t page = first; page <= last; ++page) {
    const uint64_t word = checked_[page / 64].load(std::memory_order_acquire);
    if ((word >> page % 64 & 1) != 0) [[likely]]
      continue;
    check_page(page);
    checked_[page / 64].fetch_or(uint64_t{1} << page % 64, std::memory_order_release);
  }
}

void SegmentFile::check_page(uint64_t page) const {
  const uint64_t begin = body_ + page * kPageBytes;
  const std::string_view bytes = map_.bytes().substr(begin, kPageBytes);
  const uint64_t got = hash_u64(bytes);
  uint64_t want = 0;
  std::memcpy(&want, map_.bytes().data() + header_.column_table_end() + 8 * page, 8);
  XRUN_CHECK(got == want,
             "{}: page {} (bytes {} to {}, {}) is damaged: its checksum is {:016x}, the head of "
             "the file says {:016x}; {}",
             name_, page, begin, begin + bytes.size(), rows_of_page(page), got, want, kWayOut);
}

bool SegmentFile::row_in_bytes(uint64_t row, size_t column, uint64_t begin, uint64_t end) const {
  const Column& schema = columns_[column];
  uint64_t ends[2];
  std::memcpy(
      ends,
      map_.bytes().data() + header_.columns[static_cast<size_t>(schema.offsets)].begin + 8 * row,
      sizeof(ends));
  const uint64_t at = header_.columns[column].begin;
  return at + column_bytes(schema.type, ends[0]) < end &&
         at + column_bytes(schema.type, ends[1]) > begin;
}

// The page is damaged, so its offsets may be: they only narrow the answer if they lie elsewhere.
std::string SegmentFile::rows_of_page(uint64_t page) const {
  const uint64_t page_begin = body_ + page * kPageBytes;
  const uint64_t page_end = page_begin + kPageBytes;
  const auto overlaps = [&](size_t c) {
    const uint64_t begin = header_.columns[c].begin;
    return begin < page_end &&
           begin + column_bytes(columns_[c].type, header_.columns[c].elements) > page_begin;
  };
  uint64_t first = header_.rows;
  uint64_t last = 0;
  const auto add = [&](uint64_t from, uint64_t to) {
    first = std::min(first, from);
    last = std::max(last, to);
  };
  for (size_t c = 0; c < columns_.size(); ++c) {
    if (!overlaps(c)) continue;
    const int32_t offsets = columns_[c].offsets;
    if (offsets < 0) {  // flat, or offsets: elements of the page
      const uint64_t size = column_bytes(columns_[c].type, 1);
      const uint64_t at = header_.columns[c].begin;
      const uint64_t from = page_begin > at ? (page_begin - at) / size : 0;
      const uint64_t to = (page_end - at - 1) / size;
      add(from > 0 ? from - 1 : 0, std::min(to, header_.rows - 1));
    } else if (overlaps(static_cast<size_t>(offsets))) {
      add(0, header_.rows - 1);
    } else {
      for (uint64_t row = 0; row < header_.rows; ++row) {
        if (row_in_bytes(row, c, page_begin, page_end)) add(row, row);
      }
    }
  }
  if (first > last) return "no rows";  // zeros between columns
  return fmt::format("rows {} to {}", header_.first_row + first, header_.first_row + last);
}

}  // namespace xrun

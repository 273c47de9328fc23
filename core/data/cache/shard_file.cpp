// Nothing is trusted before it is checked: the head against the manifest, a page against the head,
// offsets against the size of their column.

#include "core/data/cache/shard_file.h"

#include <algorithm>
#include <cstring>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/hash.h"

namespace xrun {

namespace {

// Called before mapping, whose own error would not mention the manifest.
const std::filesystem::path& require_there(const std::filesystem::path& path) {
  XRUN_CHECK(path_exists(path), "{}: is missing, and the manifest names it; {}", path.string(),
             kRebuildHint);
  return path;
}

}  // namespace

ShardFile::ShardFile(const std::filesystem::path& path, std::span<const Column> columns,
                     const Expected& expected)
    : name_(path.string()),
      columns_(columns),
      map_(require_there(path)),
      body_(expected.head_bytes) {
  const std::string_view all = map_.bytes();
  // The cheapest check comes first.
  XRUN_CHECK(all.size() == expected.bytes, "{}: has {} bytes, the manifest says {}; {}", name_,
             all.size(), expected.bytes, kRebuildHint);
  XRUN_CHECK(body_ <= all.size() && hash_u64(all.substr(0, body_)) == expected.head_xxh3,
             "{}: its head (bytes 0 to {}) is damaged; {}", name_, body_, kRebuildHint);
  header_ = read_shard_header(all, columns, name_);
  XRUN_CHECK(header_.head_bytes() == body_, "{}: has a head of {} bytes, the manifest says {}; {}",
             name_, header_.head_bytes(), body_, kRebuildHint);
  // One bit per page. Opening checks only the head: a cache of gigabytes opens in milliseconds.
  checked_ = std::vector<std::atomic<uint64_t>>((header_.pages + 63) / 64);
}

const char* ShardFile::element(size_t column, uint64_t index, uint64_t bytes) const {
  const ColumnSpan& span = header_.columns[column];
  XRUN_CHECK(index < span.elements && bytes == column_bytes(columns_[column].type, 1),
             "{}: column {} has {} elements, element {} was asked for", name_, column,
             span.elements, index);
  const uint64_t at = span.begin + index * bytes;
  check_bytes(at, at + bytes);
  return map_.bytes().data() + at;
}

ShardFile::JaggedRange ShardFile::range(uint64_t row, size_t offsets_column) const {
  int64_t begin = 0;
  int64_t end = 0;
  // Two offsets, each with its own bounds and page check.
  std::memcpy(&begin, element(offsets_column, row, 8), 8);
  std::memcpy(&end, element(offsets_column, row + 1, 8), 8);
  XRUN_CHECK(begin >= 0 && begin <= end, "{}: the offsets of row {} run backwards: {} to {}", name_,
             row, begin, end);
  return {static_cast<uint64_t>(begin), static_cast<uint64_t>(end)};
}

uint64_t ShardFile::count(uint64_t row, size_t offsets_column) const {
  const JaggedRange found = range(row, offsets_column);
  return found.end - found.begin;
}

ShardFile::Elements ShardFile::elements(uint64_t row, size_t column) const {
  const Column& schema = columns_[column];
  const ColumnSpan& span = header_.columns[column];
  const JaggedRange found = range(row, static_cast<size_t>(schema.offsets));
  // The offsets passed their checksum, but a hostile writer may have hashed wrong ones.
  XRUN_CHECK(found.end <= span.elements, "{}: row {} ends at element {} of column {}, which has {}",
             name_, row, found.end, column, span.elements);
  const bool bits = schema.type == ColumnType::kBits;
  // Rows of bits share bytes with their neighbours.
  const uint64_t begin = bits ? found.begin / 8 : column_bytes(schema.type, found.begin);
  const uint64_t end = column_bytes(schema.type, found.end);
  if (end > begin) check_bytes(span.begin + begin, span.begin + end);
  return {map_.bytes().data() + span.begin + begin, found.end - found.begin,
          bits ? found.begin % 8 : 0};
}

// A page is hashed when a row first touches it; after that it costs one bit test.
void ShardFile::check_bytes(uint64_t begin, uint64_t end) const {
  const uint64_t first = (begin - body_) / kPageBytes;
  const uint64_t last = (end - 1 - body_) / kPageBytes;
  for (uint64_t page = first; page <= last; ++page) {
    const uint64_t word = checked_[page / 64].load(std::memory_order_acquire);
    if ((word >> page % 64 & 1) != 0) [[likely]]
      continue;
    // Two threads may check one page at the same time; both get the same answer.
    check_page(page);
    checked_[page / 64].fetch_or(uint64_t{1} << page % 64, std::memory_order_release);
  }
}

void ShardFile::check_page(uint64_t page) const {
  // The last page may be short.
  const uint64_t begin = body_ + page * kPageBytes;
  const std::string_view bytes = map_.bytes().substr(begin, kPageBytes);
  const uint64_t got = hash_u64(bytes);
  uint64_t want = 0;
  std::memcpy(&want, map_.bytes().data() + header_.column_table_end() + 8 * page, 8);
  XRUN_CHECK(got == want,
             "{}: page {} (bytes {} to {}, {}) is damaged: its checksum is {:016x}, the head of "
             "the file says {:016x}; {}",
             name_, page, begin, begin + bytes.size(), rows_of_page(page), got, want, kRebuildHint);
}

bool ShardFile::row_in_bytes(uint64_t row, size_t column, uint64_t begin, uint64_t end) const {
  // Reads without checks, since it runs while the message of an error is made.
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

// Offsets in the damaged page are not trusted: only offsets in other pages narrow the answer.
std::string ShardFile::rows_of_page(uint64_t page) const {
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
    if (offsets < 0) {  // flat, or the offsets themselves
      const uint64_t size = column_bytes(columns_[c].type, 1);
      const uint64_t at = header_.columns[c].begin;
      const uint64_t from = page_begin > at ? (page_begin - at) / size : 0;
      const uint64_t to = (page_end - at - 1) / size;
      // An offset is the end of one row and the beginning of the next: the row before counts too.
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

void append_shard(const std::filesystem::path& dir, const ShardData& shard, SourceCursor cursor,
                  CacheManifest& manifest) {
  const size_t index = manifest.shards.size();
  ShardEntry entry;
  entry.file = shard_name(index);
  entry.first_row = manifest.rows();
  entry.rows = static_cast<int64_t>(shard.rows());
  entry.cursor = std::move(cursor);
  for (size_t c = 0; c < shard.columns().size(); ++c) {
    entry.elements.push_back(static_cast<int64_t>(shard.elements(c)));
  }
  // The head depends on the body's checksums.
  const std::string head = shard.head(index, static_cast<uint64_t>(entry.first_row), manifest.key);
  entry.head_bytes = head.size();
  entry.head_xxh3 = hash_u64(head);
  FileWriter writer(dir / entry.file);
  writer.write(head);
  shard.body([&](std::string_view piece) { writer.write(piece); });
  // Synced before the manifest names it.
  writer.sync();
  writer.close();
  entry.bytes = writer.size();
  manifest.shards.push_back(std::move(entry));
}

}  // namespace xrun

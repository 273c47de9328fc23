// A file is its head (a header of 64 bytes, 64 bytes per column, 8 bytes per page, zeros up to a
// multiple of 64), then its pages, which hold the columns, each at a multiple of 64 with zeros
// between them. Little-endian. docs/cache-format.md has the fields.

#include "core/data/cache/shard.h"

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/base/error.h"

namespace xrun {

static_assert(std::endian::native == std::endian::little, "caches are mapped little-endian");

namespace {

// A shard was called a segment when the format was fixed.
constexpr char kMagic[8] = {'X', 'R', 'U', 'N', 'S', 'E', 'G', '\0'};
constexpr size_t kNameBytes = 32;

struct FileHeader {
  char magic[8];
  uint32_t version;
  uint32_t columns;
  uint64_t rows;
  uint64_t first_row;
  uint64_t file_bytes;
  uint32_t index;
  uint32_t pages;
  uint8_t key[16];
};
// The file contains these bytes, so there must be no padding.
static_assert(sizeof(FileHeader) == 64);

struct FileColumn {
  char name[kNameBytes];
  uint32_t type;
  int32_t offsets;
  uint64_t begin;
  uint64_t elements;
  uint64_t bytes;
};
static_assert(sizeof(FileColumn) == 64);

// Indexed by ColumnType, which begins at 1.
constexpr uint64_t kTypeBits[] = {0, 8, 16, 32, 32, 64, 64, 32, 64, 1};
constexpr const char* kTypeNames[] = {"",    "u8",  "u16", "u32", "i32",
                                      "i64", "u64", "f32", "f64", "bits"};
constexpr size_t kTypes = std::size(kTypeBits);

uint64_t aligned(uint64_t at) {
  return (at + kShardAlignment - 1) / kShardAlignment * kShardAlignment;
}

// A key is 32 hexadecimal digits, 16 bytes in the file.
void key_to_bytes(const std::string& key, uint8_t (&out)[16]) {
  XRUN_CHECK(key.size() == 32, "a cache key has 32 hexadecimal digits, got \"{}\"", key);
  for (size_t i = 0; i < 16; ++i) {
    out[i] = static_cast<uint8_t>(std::stoi(key.substr(2 * i, 2), nullptr, 16));
  }
}

std::string key_from_bytes(const uint8_t (&bytes)[16]) {
  std::string key;
  for (const uint8_t byte : bytes) key += fmt::format("{:02x}", byte);
  return key;
}

// Offsets have one element more than there are rows. A jagged column may have any number.
uint64_t wanted_elements(std::span<const Column> columns, size_t c, uint64_t rows,
                         uint64_t elements) {
  if (is_offsets_column(columns, c)) return rows + 1;
  return columns[c].offsets < 0 ? rows : elements;
}

void check_column(const FileColumn& got, std::span<const Column> columns, size_t c,
                  const ShardHeader& header, const std::string& name) {
  const Column& want = columns[c];
  char padded[kNameBytes] = {};
  // Compares the padding too, so that a name cannot hide bytes after its end.
  std::memcpy(padded, want.name.data(), std::min(want.name.size(), kNameBytes - 1));
  XRUN_CHECK(std::memcmp(got.name, padded, kNameBytes) == 0 &&
                 got.type == static_cast<uint32_t>(want.type) && got.offsets == want.offsets,
             "{}: column {} is not \"{}\" of type {}, as the manifest says", name, c, want.name,
             column_type_name(want.type));
  // The elements are bounded before column_bytes is called, which overflows on a hostile number.
  const uint64_t end = header.file_bytes;
  XRUN_CHECK(got.begin % kShardAlignment == 0 && got.begin >= header.head_bytes() &&
                 got.begin <= end && got.elements <= end * 8 &&
                 got.bytes == column_bytes(want.type, got.elements) && got.bytes <= end - got.begin,
             "{}: column \"{}\" ({} elements, {} bytes at {}) is outside the file of {} bytes",
             name, want.name, got.elements, got.bytes, got.begin, end);
  XRUN_CHECK(got.elements == wanted_elements(columns, c, header.rows, got.elements),
             "{}: column \"{}\" has {} elements, the shard has {} rows", name, want.name,
             got.elements, header.rows);
}

// Computes the XXH3-64 of each page of a file that is written in pieces; the last page may be
// shorter.
class PageHasher {
 public:
  PageHasher() { XXH3_64bits_reset(&state_); }

  void bytes(std::string_view piece) {
    while (!piece.empty()) {
      const size_t n = std::min<uint64_t>(piece.size(), kPageBytes - filled_);
      XXH3_64bits_update(&state_, piece.data(), n);
      filled_ += n;
      piece.remove_prefix(n);
      if (filled_ == kPageBytes) end_page();
    }
  }
  // Ends the last page and returns the checksums of all.
  std::vector<uint64_t> finish() {
    if (filled_ > 0) end_page();
    return std::move(pages_);
  }

 private:
  void end_page() {
    pages_.push_back(XXH3_64bits_digest(&state_));
    XXH3_64bits_reset(&state_);
    filled_ = 0;
  }

  XXH3_state_t state_;
  uint64_t filled_ = 0;  // bytes of the current page
  std::vector<uint64_t> pages_;
};

}  // namespace

const char* column_type_name(ColumnType type) {
  const size_t index = static_cast<size_t>(type);
  return index < kTypes ? kTypeNames[index] : "";
}

ColumnType column_type_of(const std::string& name) {
  for (size_t t = 1; t < kTypes; ++t) {
    if (name == kTypeNames[t]) return static_cast<ColumnType>(t);
  }
  throw Error(fmt::format("\"{}\" is not a type of columns", name));
}

uint64_t column_bytes(ColumnType type, uint64_t elements) {
  return (elements * kTypeBits[static_cast<size_t>(type)] + 7) / 8;
}

bool is_offsets_column(std::span<const Column> columns, size_t index) {
  return std::any_of(columns.begin(), columns.end(), [&](const Column& column) {
    return column.offsets == static_cast<int32_t>(index);
  });
}

uint64_t ShardHeader::column_table_end() const {
  return sizeof(FileHeader) + columns.size() * sizeof(FileColumn);
}

uint64_t ShardHeader::head_bytes() const { return aligned(column_table_end() + 8 * pages); }

ShardHeader read_shard_header(std::string_view bytes, std::span<const Column> columns,
                              const std::string& name) {
  FileHeader file{};
  ShardHeader header;
  header.columns.resize(columns.size());
  XRUN_CHECK(bytes.size() >= header.column_table_end(),
             "{}: is truncated: {} bytes, its header has {}", name, bytes.size(),
             header.column_table_end());
  std::memcpy(&file, bytes.data(), sizeof(file));
  XRUN_CHECK(std::memcmp(file.magic, kMagic, sizeof(kMagic)) == 0, "{}: is not a shard of a cache",
             name);
  XRUN_CHECK(file.version == kShardVersion, "{}: is of format {}, this xrun reads {}", name,
             file.version, kShardVersion);
  header.rows = file.rows;
  header.first_row = file.first_row;
  header.file_bytes = file.file_bytes;
  header.index = file.index;
  header.pages = file.pages;
  header.key = key_from_bytes(file.key);
  // The sizes must agree with the file before a column is read.
  const uint64_t head = header.head_bytes();
  XRUN_CHECK(
      file.columns == columns.size() && file.file_bytes == bytes.size() &&
          file.rows <= bytes.size() && head <= bytes.size() &&
          (bytes.size() - head + kPageBytes - 1) / kPageBytes == file.pages,
      "{}: its header ({} columns, {} bytes, {} pages, {} rows) does not fit the file ({} columns, "
      "{} bytes)",
      name, file.columns, file.file_bytes, file.pages, file.rows, columns.size(), bytes.size());
  for (size_t c = 0; c < columns.size(); ++c) {
    FileColumn column{};
    std::memcpy(&column, bytes.data() + sizeof(file) + c * sizeof(column), sizeof(column));
    check_column(column, columns, c, header, name);
    header.columns[c] = {column.begin, column.elements};
  }
  for (const Column& column : columns) {
    // The index of an offsets column that does not exist would be read beyond the table.
    XRUN_CHECK(column.offsets < static_cast<int32_t>(columns.size()),
               "{}: column \"{}\" has no offsets", name, column.name);
  }
  return header;
}

ShardData::ShardData(std::vector<Column> columns)
    : schema_(std::move(columns)), columns_(schema_.size()) {
  for (size_t c = 0; c < schema_.size(); ++c) {
    XRUN_CHECK(schema_[c].name.size() < kNameBytes, "a column's name has at most 31 bytes: {}",
               schema_[c].name);
    // Row 0 begins at element 0; every row then appends its end.
    if (is_offsets_column(schema_, c)) push<int64_t>(c, 0);
  }
}

void ShardData::push_elements(size_t column, std::string_view bytes) {
  columns_[column].bytes.append(bytes.data(), bytes.size());
  columns_[column].elements += bytes.size() / column_bytes(schema_[column].type, 1);
}

void ShardData::push_bits(size_t column, std::span<const uint64_t> words, size_t count) {
  // Rows are not padded to bytes: this one begins inside the last byte of the row before it.
  ColumnData& data = columns_[column];
  const size_t shift = data.elements % 8;
  size_t at = data.elements / 8;
  data.elements += count;
  data.bytes.extend((data.elements + 7) / 8 - data.bytes.size());
  const size_t end = data.bytes.size();
  // The bits of earlier rows that are already in that byte.
  uint64_t carry = shift > 0 ? static_cast<uint8_t>(data.bytes[at]) : 0;
  // `shift` bits of the byte are taken, so each word is written `shift` bits up, and the bits that
  // leave it are carried into the next.
  for (const uint64_t word : words) {
    // Little-endian: the low bits of the word come first in memory.
    const uint64_t merged = word << shift | carry;
    const size_t bytes = std::min(sizeof(merged), end - at);
    std::memcpy(&data.bytes[at], &merged, bytes);
    // A shift by 64 would be undefined.
    carry = shift > 0 ? word >> (64 - shift) : 0;
    at += bytes;
  }
  if (at < end) data.bytes[at] = static_cast<char>(carry);
}

// Row i ends where row i + 1 begins, so each end is written once.
void ShardData::push_offset(size_t offsets, size_t of) {
  push(offsets, static_cast<int64_t>(columns_[of].elements));
}

uint64_t ShardData::bytes() const {
  uint64_t total = 0;
  for (const ColumnData& column : columns_) total += column.bytes.size();
  return total;
}

// Writes the columns one after the other, each padded to the alignment of the next.
void ShardData::body(const std::function<void(std::string_view)>& write) const {
  constexpr char kZeros[kShardAlignment] = {};
  for (const ColumnData& column : columns_) {
    write(column.bytes.view());
    write({kZeros, aligned(column.bytes.size()) - column.bytes.size()});
  }
}

std::string ShardData::head(uint64_t index, uint64_t first_row, const std::string& key) const {
  PageHasher hasher;
  // Hashed before the head is written, because the head holds the checksums.
  body([&](std::string_view piece) { hasher.bytes(piece); });
  const std::vector<uint64_t> pages = hasher.finish();
  ShardHeader sizes;
  sizes.columns.resize(schema_.size());
  sizes.pages = pages.size();
  FileHeader header{};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.version = kShardVersion;
  header.columns = static_cast<uint32_t>(schema_.size());
  header.rows = rows_;
  header.first_row = first_row;
  header.index = static_cast<uint32_t>(index);
  header.pages = static_cast<uint32_t>(pages.size());
  key_to_bytes(key, header.key);
  std::vector<FileColumn> table(schema_.size());
  uint64_t at = sizes.head_bytes();
  std::string head(at, '\0');
  for (size_t c = 0; c < schema_.size(); ++c) {
    const uint64_t elements = columns_[c].elements;
    XRUN_CHECK(elements == wanted_elements(schema_, c, rows_, elements),
               "cache: column \"{}\" has {} elements for {} rows", schema_[c].name, elements,
               rows_);
    FileColumn& column = table[c];
    // Sets the padding too, so that every byte of the file is determined.
    std::memset(&column, 0, sizeof(column));
    std::memcpy(column.name, schema_[c].name.data(), schema_[c].name.size());
    column.type = static_cast<uint32_t>(schema_[c].type);
    column.offsets = schema_[c].offsets;
    column.begin = at;
    column.elements = elements;
    column.bytes = columns_[c].bytes.size();
    at = aligned(at + column.bytes);
  }
  header.file_bytes = at;
  std::memcpy(head.data(), &header, sizeof(header));
  std::memcpy(head.data() + sizeof(header), table.data(), table.size() * sizeof(FileColumn));
  std::memcpy(head.data() + sizes.column_table_end(), pages.data(), 8 * pages.size());
  return head;
}

}  // namespace xrun

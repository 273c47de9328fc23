// A file is: a header of 64 bytes, 64 bytes a column, then the columns, each at a multiple of 64,
// zeros between them; everything little-endian. docs/cache-format.md has the fields.

#include "core/data/segment.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/base/error.h"

namespace xrun {

static_assert(std::endian::native == std::endian::little, "caches are mapped little-endian");

namespace {

constexpr char kMagic[8] = {'X', 'R', 'U', 'N', 'S', 'E', 'G', '\0'};
constexpr size_t kNameBytes = 32;

struct FileHeader {
  char magic[8];
  uint32_t version;
  uint32_t columns;
  uint64_t rows;
  uint64_t first_row;
  uint64_t file_bytes;
  uint64_t index;
  uint8_t key[16];
};
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

constexpr uint64_t kTypeBits[] = {0, 8, 16, 32, 32, 64, 64, 32, 64, 1};
constexpr const char* kTypeNames[] = {"",    "u8",  "u16", "u32", "i32",
                                      "i64", "u64", "f32", "f64", "bits"};
constexpr size_t kTypes = std::size(kTypeBits);

uint64_t aligned(uint64_t at) {
  return (at + kSegmentAlignment - 1) / kSegmentAlignment * kSegmentAlignment;
}

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

uint64_t wanted_elements(std::span<const Column> columns, size_t c, uint64_t rows,
                         uint64_t elements) {
  if (is_offsets_column(columns, c)) return rows + 1;
  return columns[c].offsets < 0 ? rows : elements;
}

void check_column(const FileColumn& got, std::span<const Column> columns, size_t c,
                  const SegmentHeader& header, const std::string& name) {
  const Column& want = columns[c];
  char padded[kNameBytes] = {};
  std::memcpy(padded, want.name.data(), std::min(want.name.size(), kNameBytes - 1));
  XRUN_CHECK(std::memcmp(got.name, padded, kNameBytes) == 0 &&
                 got.type == static_cast<uint32_t>(want.type) && got.offsets == want.offsets,
             "{}: column {} is not \"{}\" of type {}, as the manifest says", name, c, want.name,
             column_type_name(want.type));
  const uint64_t end = header.file_bytes;
  XRUN_CHECK(got.begin % kSegmentAlignment == 0 &&
                 got.begin >= segment_header_bytes(columns.size()) && got.begin <= end &&
                 got.elements <= end * 8 && got.bytes == column_bytes(want.type, got.elements) &&
                 got.bytes <= end - got.begin,
             "{}: column \"{}\" ({} elements, {} bytes at {}) does not lie in the file of {} bytes",
             name, want.name, got.elements, got.bytes, got.begin, end);
  XRUN_CHECK(got.elements == wanted_elements(columns, c, header.rows, got.elements),
             "{}: column \"{}\" has {} elements, the segment has {} rows", name, want.name,
             got.elements, header.rows);
}

}  // namespace

const char* column_type_name(ColumnType type) {
  const size_t index = static_cast<size_t>(type);
  return index < kTypes ? kTypeNames[index] : "";
}

uint64_t column_bytes(ColumnType type, uint64_t elements) {
  return (elements * kTypeBits[static_cast<size_t>(type)] + 7) / 8;
}

bool is_offsets_column(std::span<const Column> columns, size_t index) {
  return std::any_of(columns.begin(), columns.end(), [&](const Column& column) {
    return column.offsets == static_cast<int32_t>(index);
  });
}

uint64_t segment_header_bytes(size_t columns) {
  return sizeof(FileHeader) + columns * sizeof(FileColumn);
}

SegmentHeader read_segment_header(std::string_view bytes, uint64_t file_bytes,
                                  std::span<const Column> columns, const std::string& name) {
  FileHeader file{};
  const uint64_t size = segment_header_bytes(columns.size());
  XRUN_CHECK(bytes.size() >= size && file_bytes >= size,
             "{}: is cut short: {} bytes, its header has {}", name, file_bytes, size);
  std::memcpy(&file, bytes.data(), sizeof(file));
  XRUN_CHECK(std::memcmp(file.magic, kMagic, sizeof(kMagic)) == 0, "{}: is no segment of a cache",
             name);
  XRUN_CHECK(file.version <= kSegmentVersion,
             "{}: is of format {}, written by a newer xrun; this one reads up to {}", name,
             file.version, kSegmentVersion);
  XRUN_CHECK(
      file.columns == columns.size() && file.file_bytes == file_bytes && file.rows <= file_bytes,
      "{}: its header ({} columns, {} bytes, {} rows) does not fit the file ({} columns, "
      "{} bytes)",
      name, file.columns, file.file_bytes, file.rows, columns.size(), file_bytes);
  SegmentHeader header;
  header.rows = file.rows;
  header.first_row = file.first_row;
  header.file_bytes = file.file_bytes;
  header.index = file.index;
  header.key = key_from_bytes(file.key);
  for (size_t c = 0; c < columns.size(); ++c) {
    FileColumn column{};
    std::memcpy(&column, bytes.data() + sizeof(file) + c * sizeof(column), sizeof(column));
    check_column(column, columns, c, header, name);
    header.columns.push_back({column.begin, column.elements});
  }
  for (size_t c = 0; c < columns.size(); ++c) {
    const int32_t offsets = columns[c].offsets;
    XRUN_CHECK(offsets < static_cast<int32_t>(columns.size()), "{}: column \"{}\" has no offsets",
               name, columns[c].name);
  }
  return header;
}

SegmentData::SegmentData(std::vector<Column> columns)
    : schema_(std::move(columns)), columns_(schema_.size()) {
  for (size_t c = 0; c < schema_.size(); ++c) {
    XRUN_CHECK(schema_[c].name.size() < kNameBytes, "a column's name has at most 31 bytes: {}",
               schema_[c].name);
    if (is_offsets_column(schema_, c)) push<int64_t>(c, 0);
  }
}

void SegmentData::push_ids(size_t column, std::span<const int32_t> ids) {
  const bool narrow = schema_[column].type == ColumnType::kU16;
  for (const int32_t id : ids) {
    if (narrow) {
      push(column, static_cast<uint16_t>(id));
    } else {
      push(column, static_cast<uint32_t>(id));
    }
  }
}

void SegmentData::push_bits(size_t column, std::span<const uint8_t> flags) {
  ColumnData& data = columns_[column];
  for (const uint8_t flag : flags) {
    if (data.elements % 8 == 0) data.bytes.push_back('\0');
    if (flag != 0)
      data.bytes.back() = static_cast<char>(data.bytes.back() | (1 << data.elements % 8));
    ++data.elements;
  }
}

void SegmentData::push_text(size_t column, std::string_view text) {
  columns_[column].bytes.append(text);
  columns_[column].elements += text.size();
}

void SegmentData::push_offset(size_t offsets, size_t of) {
  push(offsets, static_cast<int64_t>(columns_[of].elements));
}

uint64_t SegmentData::bytes() const {
  uint64_t total = 0;
  for (const ColumnData& column : columns_) total += column.bytes.size();
  return total;
}

std::string SegmentData::encode(uint64_t index, uint64_t first_row, const std::string& key) const {
  FileHeader header{};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.version = kSegmentVersion;
  header.columns = static_cast<uint32_t>(schema_.size());
  header.rows = rows_;
  header.first_row = first_row;
  header.index = index;
  key_to_bytes(key, header.key);
  std::vector<FileColumn> table(schema_.size());
  uint64_t at = aligned(segment_header_bytes(schema_.size()));
  for (size_t c = 0; c < schema_.size(); ++c) {
    const uint64_t elements = columns_[c].elements;
    XRUN_CHECK(elements == wanted_elements(schema_, c, rows_, elements),
               "cache: column \"{}\" has {} elements for {} rows", schema_[c].name, elements,
               rows_);
    FileColumn& column = table[c];
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
  std::string file(at, '\0');
  std::memcpy(file.data(), &header, sizeof(header));
  std::memcpy(file.data() + sizeof(header), table.data(), table.size() * sizeof(FileColumn));
  for (size_t c = 0; c < table.size(); ++c) {
    std::copy(columns_[c].bytes.begin(), columns_[c].bytes.end(),
              file.begin() + static_cast<std::ptrdiff_t>(table[c].begin));
  }
  return file;
}

}  // namespace xrun

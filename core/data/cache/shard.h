#pragma once
// A shard of a token cache: consecutive rows as columns of one file, aligned for mapping.

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace xrun {

enum class ColumnType : uint32_t {
  kU8 = 1,
  kU16 = 2,
  kU32 = 3,
  kI32 = 4,
  kI64 = 5,
  kU64 = 6,
  kF32 = 7,
  kF64 = 8,
  kBits = 9,  // one bit per element, lowest bit of a byte first
};

// A flat column has one element per row. A jagged column has an offsets column of rows + 1 elements
// of kI64, which several columns may share: row r has elements [offsets[r], offsets[r + 1]).
struct Column {
  std::string name;  // at most 31 bytes
  ColumnType type;
  int32_t offsets = -1;  // index of a jagged column's offsets column; -1: flat, or itself offsets
  bool operator==(const Column&) const = default;
};

const char* column_type_name(ColumnType type);       // "u16"; "" if unknown
ColumnType column_type_of(const std::string& name);  // throws Error if unknown
uint64_t column_bytes(ColumnType type, uint64_t elements);
bool is_offsets_column(std::span<const Column> columns, size_t index);

constexpr uint32_t kShardVersion = 2;
constexpr uint64_t kShardAlignment = 64;
// Bytes under one checksum. Reading a scattered row hashes some seven whole pages: 32 such rows are
// 14 MB with these pages and would be 220 MB with pages of 1 MiB.
constexpr uint64_t kPageBytes = 1 << 16;

struct ColumnSpan {
  uint64_t begin = 0;  // bytes
  uint64_t elements = 0;
};

struct ShardHeader {
  uint64_t rows = 0;
  uint64_t first_row = 0;
  uint64_t file_bytes = 0;
  uint64_t index = 0;
  uint64_t pages = 0;
  std::string key;  // of the cache
  std::vector<ColumnSpan> columns;

  uint64_t head_bytes() const;  // header, column table and page checksums; the pages follow
  uint64_t column_table_end() const;
};

// Reads and checks the head of a shard whose whole file is `bytes`. Throws Error that begins with
// `name` if it is not a shard, if it has another version or other columns, or if a column is
// outside the pages. No length is trusted unchecked.
ShardHeader read_shard_header(std::string_view bytes, std::span<const Column> columns,
                              const std::string& name);

// The bytes of one column of a shard that is being built, many megabytes. Grows by realloc, which
// moves a large block in the page table; a std::string would copy it and touch twice the memory.
class ByteBuffer {
 public:
  size_t size() const { return size_; }
  std::string_view view() const { return {bytes_.get(), size_}; }

  void append(const void* bytes, size_t count) {
    if (count > 0) std::memcpy(extend(count), bytes, count);
  }
  // Adds `count` bytes for the caller to write and returns a pointer to them, valid until the next
  // call. Throws std::bad_alloc.
  char* extend(size_t count) {
    if (count > capacity_ - size_) grow(count);
    char* at = bytes_.get() + size_;
    size_ += count;
    return at;
  }
  char& operator[](size_t at) { return bytes_.get()[at]; }

 private:
  struct Free {
    void operator()(char* bytes) const { std::free(bytes); }
  };

  void grow(size_t count) {
    const size_t wanted = size_ + count < 2 * capacity_ ? 2 * capacity_ : size_ + count;
    auto* moved = static_cast<char*>(std::realloc(bytes_.get(), wanted));
    if (moved == nullptr) throw std::bad_alloc();
    (void)bytes_.release();  // realloc has taken it
    bytes_.reset(moved);
    capacity_ = wanted;
  }

  std::unique_ptr<char, Free> bytes_;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

// Rows gathered for one shard.
class ShardData {
 public:
  explicit ShardData(std::vector<Column> columns);

  // Appends an element to a column. T must be exactly the column's type.
  template <typename T>
  void push(size_t column, T value) {
    static_assert(std::is_arithmetic_v<T>);
    columns_[column].bytes.append(&value, sizeof(value));
    ++columns_[column].elements;
  }
  // Appends the bytes of whole elements to a column other than kBits.
  void push_elements(size_t column, std::string_view bytes);
  // Appends the first `count` bits of `words` to a kBits column. Requires the bits after them to be
  // 0.
  void push_bits(size_t column, std::span<const uint64_t> words, size_t count);
  // Ends a row of the jagged column `of`: appends its current length to its offsets column.
  void push_offset(size_t offsets, size_t of);
  void end_row() { ++rows_; }

  uint64_t rows() const { return rows_; }
  uint64_t bytes() const;  // of the columns
  uint64_t elements(size_t column) const { return columns_[column].elements; }
  const std::vector<Column>& columns() const { return schema_; }
  // The file is head() followed by the pieces that body() writes. Throws Error if a column's length
  // does not match the rows.
  std::string head(uint64_t index, uint64_t first_row, const std::string& key) const;
  void body(const std::function<void(std::string_view)>& write) const;

 private:
  struct ColumnData {
    ByteBuffer bytes;
    uint64_t elements = 0;
  };

  std::vector<Column> schema_;
  std::vector<ColumnData> columns_;
  uint64_t rows_ = 0;
};

}  // namespace xrun

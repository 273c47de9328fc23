#pragma once
// The rows of one source as tokens on disk, tokenised once and read lazily. docs/cache-format.md
// describes the bytes; CacheReader checks them.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/json.h"
#include "core/data/rows/ledger.h"
#include "core/data/rows/row.h"

namespace xrun {

class CacheReader;

// Streams of a pair.
constexpr size_t kChosen = 0;
constexpr size_t kRejected = 1;

// A finished cache, open for reading. Rows are 0 to size() - 1 in the order of the files.
// Thread-safe. A page is checked when it is first read. Every accessor throws Error if `row` is out
// of range, and Error that names file, page and rows if the page is damaged.
class RowCache {
 public:
  // Throws Error if the folder is not a finished cache of this kind, has another format version or
  // does not hash to its name, or if its manifest or a header is damaged.
  static std::shared_ptr<const RowCache> open(const std::filesystem::path& dir, RowKind kind);
  ~RowCache();

  RowKind kind() const { return kind_; }
  size_t stream_count() const { return streams_.size(); }  // 2 for pairs, else 1
  int64_t size() const;
  int64_t length(int64_t row, size_t stream) const;  // tokens of one stream
  int64_t tokens(int64_t row) const;                 // of all streams
  // Reads a stream: ids, one trained flag per token (always 0 for the first), and the weights if
  // the cache has them.
  void read(int64_t row, size_t stream, TokenStream& out) const;
  // Reads tokens [begin, end) of a stream as read() does. Requires 0 <= begin <= end <= length.
  void read_part(int64_t row, size_t stream, int64_t begin, int64_t end, TokenStream& out) const;
  SourceLine at(int64_t row) const;         // file and line
  uint64_t prompt_hash(int64_t row) const;  // equal for equal prompts
  float weight(int64_t row) const;          // loss weight of the row
  int8_t label(int64_t row) const;          // of feedback; 0 for other kinds

  // Positions in the first streams of all rows, laid end to end: that of a row's first token, and
  // the row of a position. first_token(size()) is the number of tokens of all rows.
  int64_t first_token(int64_t row) const;
  int64_t row_of_token(int64_t token) const;  // requires 0 <= token < first_token(size())

  const std::vector<ExtraColumn>& extra_columns() const;
  double extra_number(int64_t row, size_t column) const;            // requires is_number
  std::string_view extra_string(int64_t row, size_t column) const;  // requires !is_number

  // The extremes over all rows, known without reading them; row is -1 for an empty cache.
  struct Extreme {
    int64_t row = -1;
    int64_t value = 0;
  };
  Extreme longest() const;  // tokens of all streams
  Extreme max_token_id() const;

  const std::string& key() const;    // the folder's name
  const Json& key_document() const;  // the key is its hash
  const SourceLedger& ledger() const;
  const std::filesystem::path& dir() const;
  // Checks every page of every file. Throws Error at the first damaged one.
  void verify() const;

 private:
  RowCache(const std::filesystem::path& dir, RowKind kind);
  void find_columns();
  void find_extra();
  struct StreamColumns {
    size_t offsets, ids, mask, weights;
  };
  struct ExtraAt {
    size_t offsets, values;
  };

  std::unique_ptr<CacheReader> reader_;
  RowKind kind_;
  bool wide_ = false;  // ids of 32 bits
  bool has_weights_ = false;
  std::vector<StreamColumns> streams_;
  std::vector<int64_t> first_token_;  // of each shard, in its first stream; the total last
  size_t file_ = 0, line_ = 0, prompt_hash_ = 0, weight_ = 0, label_ = 0;
  std::vector<ExtraColumn> extra_;
  std::vector<ExtraAt> extra_at_;
  Extreme longest_, max_id_;
};

}  // namespace xrun

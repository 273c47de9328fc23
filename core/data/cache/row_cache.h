#pragma once
// Rows as tokens on disk: one source's rows of any kind, tokenised once, read lazily.
//
// The bytes are described in docs/cache-format.md; cache_reader.h checks them.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/json.h"
#include "core/data/rows/ledger.h"
#include "core/data/rows/row_type.h"

namespace xrun {

class CacheReader;

// The streams of a pair.
constexpr size_t kChosen = 0;
constexpr size_t kRejected = 1;

struct KeptColumn {
  std::string name;
  bool is_number;         // else a string
  bool is_whole = false;  // every row has a whole number of at most 2^53
};

// A finished cache, open for reading. Rows are 0 to size() - 1 in the order of the files.
// Thread-safe after open. A page is checked when it is first touched; every accessor throws Error
// that names file, page and rows if the page is damaged, and Error if row is out of range.
class RowCache {
 public:
  // Throws Error if the folder is no finished cache of this kind, was written by a newer format,
  // does not hash to its name, or its manifest or a header is damaged.
  static std::shared_ptr<const RowCache> open(const std::filesystem::path& dir, RowKind kind);
  ~RowCache();

  RowKind kind() const { return kind_; }
  size_t stream_count() const { return streams_.size(); }  // 2 for pairs, else 1
  int64_t size() const;
  int64_t length(int64_t row, size_t stream) const;  // tokens of one stream
  int64_t tokens(int64_t row) const;                 // of all streams
  // Reads a stream: ids, a flag a token that is 1 where it is trained (0 at the first one, always),
  // and the weights where the cache has them.
  void read(int64_t row, size_t stream, TokenStream& out) const;
  // The same of tokens [begin, end) of the stream. Requires 0 <= begin <= end <= length.
  void read_part(int64_t row, size_t stream, int64_t begin, int64_t end, TokenStream& out) const;
  SourceLine at(int64_t row) const;         // file and line
  uint64_t prompt_hash(int64_t row) const;  // equal for equal prompts
  float weight(int64_t row) const;          // loss weight of the row
  int8_t label(int64_t row) const;          // of feedback; 0 for other kinds

  // The first streams of all rows laid end to end: where a row begins, and which row holds a token.
  // first_token(size()) is the number of all tokens.
  int64_t first_token(int64_t row) const;
  int64_t row_of_token(int64_t token) const;  // requires 0 <= token < first_token(size())

  const std::vector<KeptColumn>& kept_columns() const;
  double kept_number(int64_t row, size_t column) const;            // requires is_number
  std::string_view kept_string(int64_t row, size_t column) const;  // requires !is_number

  // Extremes over all rows, known without reading any; row -1 for an empty cache.
  struct Extreme {
    int64_t row = -1;
    int64_t value = 0;
  };
  Extreme longest() const;  // tokens of all streams
  Extreme max_token_id() const;

  const std::string& key() const;    // the folder's name
  const Json& key_document() const;  // what the key is a hash of
  const SourceLedger& ledger() const;
  const std::filesystem::path& dir() const;
  // Checks every page of every file, those of added columns too. Throws Error at the first damaged
  // one.
  void verify() const;

 private:
  RowCache(const std::filesystem::path& dir, RowKind kind);
  void find_columns();
  void find_kept();
  struct StreamColumns {
    size_t offsets, ids, mask, weights;
  };
  struct KeptPlace {
    size_t offsets, values;
  };

  std::unique_ptr<CacheReader> reader_;
  RowKind kind_;
  bool wide_ = false;  // ids of 32 bits
  bool has_weights_ = false;
  std::vector<StreamColumns> streams_;
  std::vector<int64_t> first_token_;  // of each segment, in its first stream; the total at the end
  size_t file_ = 0, line_ = 0, prompt_hash_ = 0, weight_ = 0, label_ = 0;
  std::vector<KeptColumn> kept_;
  std::vector<KeptPlace> kept_places_;
  Extreme longest_, max_id_;
};

}  // namespace xrun

#pragma once
// Pairs as tokens on disk: one source's preference rows, tokenised once, read lazily.
//
// The bytes are described in docs/cache-format.md; cache_reader.h checks them.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/json.h"
#include "core/data/ledger.h"

namespace xrun {

class CacheReader;

enum class Side : int8_t { kChosen = 1, kRejected = -1 };

struct KeptColumn {
  std::string name;
  bool is_number;  // else a string
};

// A finished cache, open for reading. Rows are 0 to size() - 1 in the order of the files.
// Thread-safe after open. A page is checked when it is first touched; every accessor throws Error
// that names file, page and rows if the page is damaged, and Error if row is out of range.
class PairCache {
 public:
  // Throws Error if the folder is no finished cache, was written by a newer format, does not hash
  // to its name, or its manifest or a header is damaged.
  static std::shared_ptr<const PairCache> open(const std::filesystem::path& dir);
  ~PairCache();

  int64_t size() const;
  // Tokens of one side; of both.
  int64_t length(int64_t row, Side side) const;
  int64_t pair_tokens(int64_t row) const;
  // Token ids; and a flag per token, 1 where it is trained (0 at the first token, always).
  void read(int64_t row, Side side, std::vector<int32_t>& ids, std::vector<uint8_t>& trained) const;
  SourceLine at(int64_t row) const;         // file and line
  uint64_t prompt_hash(int64_t row) const;  // equal for equal shared prompts
  float weight(int64_t row) const;          // loss weight of the row

  const std::vector<KeptColumn>& kept_columns() const;
  double kept_number(int64_t row, size_t column) const;            // requires is_number
  std::string_view kept_string(int64_t row, size_t column) const;  // requires !is_number

  // Extremes over all rows, known without reading any; row -1 for an empty cache.
  struct Extreme {
    int64_t row = -1;
    int64_t value = 0;
  };
  Extreme longest_pair() const;  // tokens of both sides
  Extreme max_token_id() const;

  const std::string& key() const;    // the folder's name
  const Json& key_document() const;  // what the key is a hash of
  const SourceLedger& ledger() const;
  const std::filesystem::path& dir() const;
  // Checks every page of every file. Throws Error at the first damaged one.
  void verify() const;

 private:
  explicit PairCache(const std::filesystem::path& dir);
  struct SideColumns {
    size_t offsets, ids, mask;
  };
  struct KeptPlace {
    size_t offsets, values;
  };
  const SideColumns& side_columns(Side side) const;

  std::unique_ptr<CacheReader> reader_;
  bool wide_ = false;  // ids of 32 bits
  SideColumns chosen_{}, rejected_{};
  size_t file_ = 0, line_ = 0, prompt_hash_ = 0, weight_ = 0;
  std::vector<KeptColumn> kept_;
  std::vector<KeptPlace> kept_places_;
  Extreme longest_, max_id_;
};

}  // namespace xrun

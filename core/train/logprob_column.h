#pragma once
// A file of log-prob sums by (row, side), appended to as a run visits rows.
//
// A folder $XRUN_CACHE/columns/<hash of key.json>/ with key.json and column.bin. Records are 40
// bytes: row id i64, side i64, hash of the tokens u64, value f32 and zero u32, XXH3 of those 32
// bytes u64; little endian. A torn or damaged tail is ignored on reading and cut by the next
// writer; several processes may use one column.

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/json.h"

namespace xrun {

// Returns cache_root()/columns. Throws Error as that does.
std::filesystem::path columns_dir();

// Whether a folder holds the column of a key, with at least one value. Makes none.
bool has_column(const std::filesystem::path& root, const Json& key);

class LogprobColumn {
 public:
  // Opens or makes the column of a key and reads what it holds. Throws Error if the folder's
  // key.json is not `key`, or on a file failure.
  LogprobColumn(const std::filesystem::path& root, const Json& key);

  // The value of a segment, if it is there and was computed for tokens of this hash.
  std::optional<float> find(int64_t row, int8_t side, uint64_t tokens) const;

  // Whether there is a value of a segment, whatever tokens it was computed for.
  bool has(int64_t row, int8_t side) const { return values_.contains({row, side}); }

  // Adds a value; find() sees it at once, other processes after flush().
  void add(int64_t row, int8_t side, uint64_t tokens, float value);

  // Appends what was added, under the folder's lock, and syncs. Nothing added costs nothing.
  void flush();

  size_t size() const { return values_.size(); }
  size_t unsaved() const { return pending_.size(); }
  const std::filesystem::path& dir() const { return dir_; }

 private:
  struct Value {
    uint64_t tokens;
    float value;
  };
  struct Record {
    int64_t row, side;
    uint64_t tokens;
    float value;
  };
  uint64_t read_records();  // takes in new records; returns where the sound ones end

  std::filesystem::path dir_;
  std::map<std::pair<int64_t, int64_t>, Value> values_;
  std::vector<Record> pending_;
  uint64_t end_ = 0;  // bytes read so far, all sound
};

}  // namespace xrun

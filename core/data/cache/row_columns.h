#pragma once
// Fills the columns of a cache with encoded rows, in source order.

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/data/cache/stored_row.h"

namespace xrun {

// Returns the names of a kind's streams: {"chosen", "rejected"} or {"tokens"}.
std::vector<std::string> stream_names(RowKind kind);

// The columns of a schema in order: for each stream NAME_offsets, NAME_ids, NAME_mask and, with
// token weights, NAME_weights; then file, line, prompt_hash, weight, label (feedback only), and
// extra column k as "keep<k>" (f64) or "keep<k>_offsets" and "keep<k>" (u8).
class RowColumns {
 public:
  explicit RowColumns(RowSchema schema);

  const RowSchema& schema() const { return schema_; }
  // The columns of every shard. Fixed once the first row is accepted.
  std::vector<Column> columns() const;

  // Accepts the next row and counts its cuts, tokens, straddlers and notes in the ledger. The first
  // row fixes the types of the extra columns; a later one with other types is not counted, but
  // refused with RowRefusal "bad_extra_column".
  void accept(StoredRow& row, const SourceLine& at, SourceLedger& ledger);
  // Appends the last accepted row to the shard.
  void append(const StoredRow& row, const SourceLine& at, ShardData& shard);

  // Returns the figures over all rows so far, for the manifest: rows, longest_row, longest_tokens
  // (of both streams), tokens, max_id_row, max_id and, as `kept`, the name and type of each extra
  // column, with "whole" for numbers that all are. restore() sets them when a build continues.
  Json summary() const;
  void restore(const Json& summary);

 private:
  void fix_extra_types(StoredRow& row);
  void append_stream(ShardData& shard, size_t first_column, const StoredStream& stream);

  RowSchema schema_;
  int64_t rows_ = 0;
  std::vector<std::string> extra_types_;  // "number", "string", "absent"; fixed by the first row
  std::vector<bool> extra_whole_;         // of a number column: all numbers so far are whole
  int64_t longest_row_ = -1, longest_tokens_ = 0;
  int64_t tokens_ = 0;
  int64_t max_id_row_ = -1, max_id_ = -1;
};

}  // namespace xrun

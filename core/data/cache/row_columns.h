#pragma once
// The columns of a cache, and how encoded rows fill them, one after the other in source order.

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/data/cache/packed_row.h"

namespace xrun {

// Returns what a row kind's streams are called: {"chosen", "rejected"}, or {"tokens"}.
std::vector<std::string> stream_names(RowKind kind);

// Where the columns of a schema stand. Names of a pair's streams are chosen_*, rejected_*; of any
// other row tokens_*: NAME_offsets, NAME_ids, NAME_mask and, with token weights, NAME_weights. Then
// file, line, prompt_hash, weight, label (feedback alone), and kept column k as "keep<k>" (f64) or
// "keep<k>_offsets" and "keep<k>" (u8).
class RowColumns {
 public:
  explicit RowColumns(RowSchema schema);

  const RowSchema& schema() const { return schema_; }
  // The columns of every segment; asked for after the first kept row, the same ever after.
  std::vector<Column> columns() const;

  // Takes the next kept row in: fixes the types of kept columns with the first one and refuses what
  // has others (RowRefusal "kept_column", nothing is counted then); counts cuts, tokens, straddlers
  // and notes in the ledger.
  void accept(PackedRow& row, const SourceLine& at, SourceLedger& ledger);
  // Appends the row last accepted, as one row of the segment.
  void append(const PackedRow& row, const SourceLine& at, SegmentData& segment);

  // Figures over all rows so far, kept in the manifest: rows, longest_row, longest_tokens (both
  // streams together), tokens, max_id_row, max_id, kept: name, type, and of numbers whether every
  // row has a whole one. restore() takes them up again when a build goes on.
  Json summary() const;
  void restore(const Json& summary);

 private:
  void fix_kept_types(PackedRow& row);
  void append_stream(SegmentData& segment, size_t first_column, const PackedStream& stream);

  RowSchema schema_;
  int64_t rows_ = 0;
  std::vector<std::string> kept_types_;  // "number", "string", "absent"; fixed by the first row
  std::vector<bool> kept_whole_;         // of numbers: so far every row has a whole one
  int64_t longest_row_ = -1, longest_tokens_ = 0;
  int64_t tokens_ = 0;
  int64_t max_id_row_ = -1, max_id_ = -1;
};

}  // namespace xrun

#pragma once
// An encoded row as a shard stores it, so that gathering rows is copying.

#include <array>
#include <cstdint>
#include <vector>

#include "core/data/cache/shard.h"
#include "core/data/rows/row.h"

namespace xrun {

struct StoredStream {
  std::vector<char> ids;       // u16 or u32
  std::vector<uint64_t> bits;  // of the mask, lowest bit first; bits after the last token are 0
  std::vector<float> weights;  // one per token; empty: all 1
  int64_t tokens = 0;
  int64_t trained = 0;
  int64_t largest_id = -1;
};

struct StoredRow : RowFacts {
  std::array<StoredStream, 2> streams;

  int64_t tokens() const { return streams[0].tokens + streams[1].tokens; }
};

// Returns the type of the ids: kU16 if the vocabulary fits, else kU32.
ColumnType id_type(const RowSchema& schema);

// Moves `row`, whose ids fit the type `ids`, into `out` and reuses the memory of `out`. Throws
// Error unless each stream has one flag per token.
void store_row(EncodedRow&& row, ColumnType ids, StoredRow& out);

}  // namespace xrun

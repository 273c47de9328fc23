#pragma once
// An encoded row in the form in which a segment stores it, so that whoever gathers rows only
// copies.

#include <array>
#include <cstdint>
#include <vector>

#include "core/data/rows/row_type.h"
#include "core/data/cache/segment.h"

namespace xrun {

struct PackedStream {
  std::vector<char> ids;       // u16 or u32
  std::vector<uint64_t> bits;  // of the mask, the lowest bit first; those behind the last are 0
  std::vector<float> weights;  // one a token; empty: all 1
  int64_t tokens = 0;
  int64_t trained = 0;
  int64_t largest_id = -1;
};

struct PackedRow : RowFacts {
  std::array<PackedStream, 2> streams;

  int64_t tokens() const { return streams[0].tokens + streams[1].tokens; }
};

// Returns the type of the ids of a schema: kU16 if its vocabulary fits, else kU32.
ColumnType id_type(const RowSchema& schema);

// Takes `row`, whose ids fit `ids`, and writes over `out`, whose memory is used again. Throws Error
// if a stream has not as many flags as tokens.
void pack_row(EncodedRow&& row, ColumnType ids, PackedRow& out);

}  // namespace xrun

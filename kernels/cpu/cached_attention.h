#pragma once
// Attention of new tokens to cached keys and values, with the bits of the same rows in a pack. The
// cache holds the blocks of tree_attention.h, with keys transposed, so that the tiles read them in
// place. A block that several sequences share is read once for all of them.

#include "kernels/cpu/tree_attention.h"

namespace xrun::kernels {

// One block of one key head, and the query tokens that see it.
template <class T>
struct CachedBlock {
  const T* keys;     // [width, kKeyBlock]; K rows and `count` columns are read
  const T* values;   // [kKeyBlock, width]
  int64_t position;  // of the first key
  int64_t count;     // of keys, at most kKeyBlock
  int64_t first;     // query tokens [first, last) of the call
  int64_t last;
};

// y = softmax(scale q k^T) v of query tokens, for the query heads of one key head.
template <class T>
struct CachedAttention {
  const T* q;                    // first query head of token 0; token t is at q + t row
  T* y;                          // the same
  const int32_t* positions;      // [tokens]
  const CachedBlock<T>* blocks;  // those of a token have ascending positions
  float* scratch;                // cached_scratch floats
  int64_t tokens;
  int64_t block_count;
  int64_t row;       // elements between two tokens of q and of y
  int64_t window;    // a token sees the last `window` positions; 0: all
  int64_t heads;     // query heads of the key head
  int64_t head_dim;  // K
  float scale;       // of the scores, usually 1 / sqrt(K)
};

// Returns the floats of scratch: q and out of each row, its RowSum of 17 floats, and the scores of
// at most 6 rows.
constexpr int64_t cached_scratch(int64_t rows, int64_t head_dim) {
  return rows * (2 * padded_head(head_dim) + 17) + 6 * kKeyBlock;
}

}  // namespace xrun::kernels

#ifdef XRUN_VECTOR_BYTES

namespace xrun::kernels {

namespace {

template <class T>
void compute(const CachedAttention<T>& a) {
  const int64_t width = padded_head(a.head_dim), rows = a.tokens * a.heads;
  float* const scores = a.scratch + 2 * rows * width;
  // As in attend_slice, but the tiles read keys and values in the cache.
  ForwardTiles<T> f{a.scratch,
                    a.scratch + rows * width,
                    reinterpret_cast<RowSum*>(scores + kTileRows * kKeyBlock),
                    scores,
                    a.heads,
                    width,
                    a.head_dim,
                    nullptr,
                    nullptr,
                    kKeyBlock};
  const auto row_at = [&](int64_t r) { return r / a.heads * a.row + r % a.heads * a.head_dim; };
  for (int64_t r = 0; r < rows; ++r) begin_row(f, r, a.q + row_at(r), a.scale);
  // Blocks ascend, so each row takes them in the order of its path, as in a pack.
  for (int64_t b = 0; b < a.block_count; ++b) {
    const CachedBlock<T>& block = a.blocks[b];
    f.keys = block.keys;
    f.values = block.values;
    const int64_t end = block.last * a.heads;
    for (int64_t row = block.first * a.heads; row < end; row += kTileRows) {
      const int64_t n = smaller(kTileRows, end - row);
      const SeenKeys any =
          seen_by_any(a.positions, block.position, block.count, a.window, row, row + n, a.heads);
      if (any.low >= any.high) continue;
      attend(f, a.positions, block.position, block.count, a.window, row, n, any);
    }
  }
  for (int64_t r = 0; r < rows; ++r) end_row(f, r, a.y + row_at(r));
}

}  // namespace

}  // namespace xrun::kernels

#endif

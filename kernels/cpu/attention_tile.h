#pragma once
// The arithmetic shared by attention over packs and by decoding: products of small tiles, and the
// online softmax of one row over one block of keys (Milakov and Gimelshein 2018).
//
// A row's bits must not depend on the rows computed beside it. So keys come in blocks of kKeyBlock
// positions of the row's path, a score is one chain of multiply-adds over the head's dimensions,
// the row's maximum changes once per block, and weighted values are added key by key. Keys of a
// tile that a row does not see have weight 0 for it.

#include "kernels/cpu/vector.h"

namespace xrun::kernels {

// Positions k kKeyBlock to (k + 1) kKeyBlock - 1 of a path are one block of keys.
constexpr int64_t kKeyBlock = 64;

// Returns a head's dimensions in a tile: a whole number of vectors of every instruction set.
constexpr int64_t padded_head(int64_t head_dim) { return (head_dim + 15) / 16 * 16; }

}  // namespace xrun::kernels

#ifdef XRUN_VECTOR_BYTES

namespace xrun::kernels {

namespace {

// Rows and vectors of a product whose sums are in registers: 24 of the 32 of AVX-512, 12 of 16 of
// AVX2, and 8 of 16 where a multiply-add needs a register for the product.
constexpr int kTileRows = kLanes == 4 ? 4 : 6;
constexpr int kTileVectors = kLanes == 16 ? 4 : 2;

// c [rows, columns] = factor c + a b, each number one chain of multiply-adds over the depth.
// a(r, d) is a[r a_row + d a_depth], b(d, j) is b[d b_depth + j].
template <class B>
struct TileProduct {
  const float* a;   // [rows, depth]
  int64_t a_row;    // elements between two rows of a
  int64_t a_depth;  // elements between two columns of a; 1 unless a is read transposed
  const B* b;       // [depth, columns]
  int64_t b_depth;  // elements between two rows of b
  float* c;         // [rows, columns] in and out
  int64_t c_row;    // elements between two rows of c
  int64_t rows;
  int64_t columns;  // a multiple of kLanes
  int64_t depth;
  const float* factor;  // [rows]; null: c begins at 0
};

template <int R, int N, class B>
void multiply_tile(const TileProduct<B>& p, int64_t row, int64_t column) {
  // R x N sums stay in registers over the whole depth.
  VF sum[R][N];
  float* const c = p.c + row * p.c_row + column;
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int j = 0; j < N; ++j) {
      sum[r][j] =
          p.factor == nullptr ? VF{} : load(c + r * p.c_row + j * kLanes) * p.factor[row + r];
    }
  }
  const float* a = p.a + row * p.a_row;
  const B* b = p.b + column;
  const int64_t a_row = p.a_row, a_depth = p.a_depth, b_depth = p.b_depth;
  for (int64_t d = 0; d < p.depth; ++d) {
    VF x[N];
#pragma GCC unroll 4
    for (int j = 0; j < N; ++j) x[j] = load(b + j * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const float y = a[r * a_row];
#pragma GCC unroll 4
      for (int j = 0; j < N; ++j) sum[r][j] += x[j] * y;
    }
    a += a_depth;
    b += b_depth;
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int j = 0; j < N; ++j) store(c + r * p.c_row + j * kLanes, sum[r][j]);
  }
}

// Columns in steps of a full tile; a narrower instance multiplies the rest.
template <int R, class B>
XRUN_INLINE void multiply_rows(const TileProduct<B>& p, int64_t row) {
  for (int64_t column = 0; column < p.columns; column += kTileVectors * kLanes) {
    const int64_t left = (p.columns - column) / kLanes;
    if (left >= kTileVectors) {
      multiply_tile<R, kTileVectors>(p, row, column);
    } else if (left == 1) {
      multiply_tile<R, 1>(p, row, column);
    } else if constexpr (kTileVectors > 2) {
      left == 2 ? multiply_tile<R, 2>(p, row, column) : multiply_tile<R, 3>(p, row, column);
    }
  }
}

// Rows in steps of a full tile; an instance of the right height multiplies the rest.
template <class B>
void multiply(const TileProduct<B>& p) {
  int64_t row = 0;
  for (; row + kTileRows <= p.rows; row += kTileRows) multiply_rows<kTileRows>(p, row);
  // Tiles of 4 rows leave at most 3: cases 4 and 5 then name the instance of 1 row, so that no tile
  // above kTileRows is compiled.
  switch (p.rows - row) {
    case 1: return multiply_rows<1>(p, row);
    case 2: return multiply_rows<2>(p, row);
    case 3: return multiply_rows<3>(p, row);
    case 4: return multiply_rows<(kTileRows < 5 ? 1 : 4)>(p, row);
    case 5: return multiply_rows<(kTileRows < 5 ? 1 : 5)>(p, row);
    default: return;
  }
}

// The keys [low, high) of a block that a row sees.
struct SeenKeys {
  int64_t low, high;
};

// Returns what a row at `position` sees of the block that begins at position `block` and has
// `count` keys.
XRUN_INLINE SeenKeys seen_keys(int64_t position, int64_t block, int64_t count, int64_t window) {
  const int64_t high = position + 1 - block, low = window > 0 ? high - window : 0;
  return {low > 0 ? low : 0, high < count ? high : count};
}

// Returns the scores, with -infinity for keys that the row does not see.
XRUN_INLINE VF masked(VF scores, int64_t first, SeenKeys seen) {
  const VI key = lane_numbers(LaneNumbers()) + static_cast<int32_t>(first);
  const VI out = (key < static_cast<int32_t>(seen.low)) | (key >= static_cast<int32_t>(seen.high));
  return out ? splat(-__builtin_inff()) : scores;
}

// The state of a row between blocks: its largest score, and the sum of exponentials over lanes.
struct RowSum {
  float most;       // -inf before the first block
  float lanes[16];  // their sum is the row's; kLanes of them are used
};

// -inf, not a large negative number, since its exponential must be exactly 0.
XRUN_INLINE void clear(RowSum& row) {
  row.most = -__builtin_inff();
  for (float& lane : row.lanes) lane = 0;
}

// Turns the scores of a row over a block, of which `width` are stored, into exponentials relative
// to the row's maximum so far, and adds them to its sum. Returns the factor that brings what was
// accumulated before to that maximum. Never inlined, since every caller must round alike.
__attribute__((noinline)) float exponentials(float* score, int64_t width, SeenKeys seen,
                                             RowSum& row) {
  const bool whole = seen.low == 0 && seen.high >= width;
  // A row of the tile that sees no key of this block has weights of 0; its state does not change.
  if (seen.low >= seen.high) {
    for (int64_t j = 0; j < width; j += kLanes) store(score + j, VF{});
    return 1;
  }
  VF most = splat(row.most);
  for (int64_t j = 0; j < width; j += kLanes) {
    VF s = load(score + j);
    if (!whole) {
      s = masked(s, j, seen);
      store(score + j, s);
    }
    most = larger(s, most);
  }
  // A NaN never becomes the maximum, since `larger` keeps its second argument. It reaches the sum
  // through its exponential.
  const float largest = max_of(most);
  const VF shift = VF{} + largest;
  // Before the first block the old maximum is -inf, so the factor is 0; the sum is empty.
  const float factor = exp_of_nonpositive(splat(row.most) - shift)[0];
  VF sum = load(row.lanes) * factor;
  for (int64_t j = 0; j < width; j += kLanes) {
    const VF e = exp_of_nonpositive(load(score + j) - shift);
    store(score + j, e);
    sum += e;
  }
  store(row.lanes, sum);
  row.most = largest;
  return factor;
}

// Returns the sum of the lanes, added in their order at the end of a row.
XRUN_INLINE float total(const RowSum& row) { return sum_of(load(row.lanes)); }

// Writes n numbers of x to y, converted and scaled, and pads them with zeros to `width`.
template <class T>
XRUN_INLINE void widen(const T* x, float* y, int64_t n, int64_t width, float scale) {
  for (int64_t i = 0; i < width; i += kLanes) {
    const int64_t left = n - i;
    VF v = {};
    if (left > 0) v = load_some(x + i, left < kLanes ? static_cast<int>(left) : kLanes);
    store(y + i, v * scale);
  }
}

}  // namespace

}  // namespace xrun::kernels

#endif

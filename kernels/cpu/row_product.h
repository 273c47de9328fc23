#pragma once
// Linear maps y = x W^T + b whose rows do not depend on each other: every element is one chain of
// fused multiply-adds over the inner dimension, from 0, and the bias is added last. So a row has
// the same bits whatever the number of rows, their order, the split over threads and the vector
// width, except that portable vectors round the product and the sum separately.
//
// W is transposed a panel at a time into a buffer that stays in the cache, as in Goto and van de
// Geijn (2008); a tile of rows times a panel of columns is summed in registers. A weight of many
// products of few rows may be packed once instead, with the same bits.

#include "kernels/cpu/vector.h"

namespace xrun::kernels {

// y = x W^T + b.
struct RowProduct {
  const float* x;     // [rows, inner]
  int64_t x_stride;   // elements between two rows of x
  const float* w;     // [columns, inner]
  int64_t w_stride;   // elements between two rows of w
  const float* bias;  // [columns] or null
  float* y;           // [rows, columns] out
  int64_t y_stride;   // elements between two rows of y
  int64_t rows;
  int64_t columns;
  int64_t inner;
  const float* panels = nullptr;  // W as PackColumns writes it; w is then not read
};

// Writes all panels of W: kPackedColumns columns at a time, each panel [inner, kPackedColumns] or
// several narrower ones in a row. Columns from any multiple of kPackedColumns on begin at
// panels + column * inner.
struct PackColumns {
  const float* w;    // [columns, inner]
  int64_t w_stride;  // elements between two rows of w
  float* panels;     // out, columns rounded up to kPackedColumns, times inner
  int64_t columns;
  int64_t inner;
};

constexpr int64_t kPackedColumns = 32;  // a multiple of every instruction set's panel

}  // namespace xrun::kernels

#ifdef XRUN_VECTOR_BYTES

namespace xrun::kernels {

namespace {

// Registers hold the sums of a tile: 14 x 2 of the 32 of AVX-512, 4 x 2 of 16 otherwise, beside two
// vectors of the panel and a broadcast element of x.
constexpr int kProductRows = kLanes == 16 ? 14 : 4;
constexpr int kPanelColumns = 2 * kLanes;
// Inner elements of a panel. Few rows take a short panel, which stays in the first-level cache;
// many rows take a long one, which is packed rarely. Sums are carried from panel to panel through
// y, so their bits do not depend on its length.
constexpr int64_t kLongPanel = 1024, kShortPanel = 64;

template <int... I>
struct LaneList {};
template <int N>
struct LanesTo {
  using list = LaneList<__integer_pack(N)...>;
};
using EveryLane = LanesTo<kLanes>::list;

// In groups of four lanes: (a0 b0 a1 b1), or (a2 b2 a3 b3).
template <int kFrom, int... I>
XRUN_INLINE VF interleave(VF a, VF b, LaneList<I...>) {
  return __builtin_shuffle(a, b, VI{((I & ~3) + kFrom + ((I & 3) >> 1) + (I & 1) * kLanes)...});
}

// In groups of four lanes: (a0 a1 b0 b1), or (a2 a3 b2 b3).
template <int kFrom, int... I>
XRUN_INLINE VF join_pairs(VF a, VF b, LaneList<I...>) {
  return __builtin_shuffle(a, b, VI{((I & ~3) + kFrom + (I & 1) + ((I & 2) >> 1) * kLanes)...});
}

// Groups of four lanes: kA and kB of a, then of b (AVX-512); kA of a, then kB of b (AVX2).
template <int kA, int kB, int... I>
XRUN_INLINE VF join_groups(VF a, VF b, LaneList<I...>) {
  if constexpr (kLanes == 16) {
    return __builtin_shuffle(a, b,
                             VI{((((I >> 2) & 1) ? kB : kA) * 4 + (I & 3) + (I >> 3) * kLanes)...});
  } else {
    return __builtin_shuffle(a, b, VI{(((I >> 2) ? kB * 4 + kLanes : kA * 4) + (I & 3))...});
  }
}

// Transposes a square of kLanes rows in place.
XRUN_INLINE void transpose(VF* v) {
  constexpr EveryLane all{};
  for (int g = 0; g < kLanes; g += 4) {
    const VF a = interleave<0>(v[g], v[g + 1], all), b = interleave<2>(v[g], v[g + 1], all);
    const VF c = interleave<0>(v[g + 2], v[g + 3], all), d = interleave<2>(v[g + 2], v[g + 3], all);
    v[g] = join_pairs<0>(a, c, all), v[g + 1] = join_pairs<2>(a, c, all);
    v[g + 2] = join_pairs<0>(b, d, all), v[g + 3] = join_pairs<2>(b, d, all);
  }
  if constexpr (kLanes == 8) {
    for (int c = 0; c < 4; ++c) {
      const VF a = v[c], b = v[c + 4];
      v[c] = join_groups<0, 0>(a, b, all), v[c + 4] = join_groups<1, 1>(a, b, all);
    }
  }
  if constexpr (kLanes == 16) {
    for (int c = 0; c < 4; ++c) {
      const VF a = join_groups<0, 1>(v[c], v[c + 4], all);
      const VF b = join_groups<2, 3>(v[c], v[c + 4], all);
      const VF d = join_groups<0, 1>(v[c + 8], v[c + 12], all);
      const VF e = join_groups<2, 3>(v[c + 8], v[c + 12], all);
      v[c] = join_groups<0, 2>(a, d, all), v[c + 4] = join_groups<1, 3>(a, d, all);
      v[c + 8] = join_groups<0, 2>(b, e, all), v[c + 12] = join_groups<1, 3>(b, e, all);
    }
  }
}

// Writes columns [j, j + kPanelColumns) of W^T, inner elements [from, from + n), as [n,
// kPanelColumns]. Columns that do not exist repeat the last one and are not stored later.
template <class Weight>
void pack_panel(const Weight& a, int64_t j, int64_t from, int64_t n, float* panel) {
  for (int half = 0; half < kPanelColumns; half += kLanes) {
    if (half > 0 && j + half >= a.columns) break;  // read by no tile
    const float* row[kLanes];
    for (int i = 0; i < kLanes; ++i) {
      const int64_t column = j + half + i < a.columns ? j + half + i : a.columns - 1;
      row[i] = a.w + column * a.w_stride + from;
    }
    each_vector(n, [&](int64_t k, int count) {
      VF v[kLanes];
      for (int i = 0; i < kLanes; ++i) {
        v[i] = load_some(row[i] + k, count);
        // Prefetches these elements of the next panel: products of few rows wait for memory, and
        // this takes 15 to 25 % off their time. A prefetch beyond the end of W does not fault.
        __builtin_prefetch(row[i] + k + kPanelColumns * a.w_stride, 0, 2);
      }
      transpose(v);
      for (int i = 0; i < count; ++i) store(panel + (k + i) * kPanelColumns + half, v[i]);
    });
  }
}

// Multiplies rows [r, r + kRows) by the panel, for kWide vectors of columns from j.
template <int kRows, int kWide>
void row_tile(const RowProduct& a, int64_t r, int64_t j, int64_t from, int64_t n,
              const float* panel) {
  VF sum[kRows][kWide];
  const float* x = a.x + r * a.x_stride + from;
  float* y = a.y + r * a.y_stride + j;
  const int64_t left = a.columns - j;
  const auto width = [&](int c) {
    return left - c * kLanes < kLanes ? static_cast<int>(left - c * kLanes) : kLanes;
  };
  for (int i = 0; i < kRows; ++i) {
    for (int c = 0; c < kWide; ++c) {
      sum[i][c] = from == 0 ? VF{} : load_some(y + i * a.y_stride + c * kLanes, width(c));
      // Fetches what the tile will write while it is summed: 5 % off at 256 inner elements.
      if (from == 0) __builtin_prefetch(y + i * a.y_stride + c * kLanes, 1);
    }
  }
  for (int64_t k = 0; k < n; ++k) {
    VF b[kWide];
    for (int c = 0; c < kWide; ++c) b[c] = load(panel + k * kPanelColumns + c * kLanes);
    for (int i = 0; i < kRows; ++i) {
      // A broadcast. The compiler drops the subtraction, since x - 0 is x for every x; x + 0 is not
      // for x = -0.
      const VF e = x[i * a.x_stride + k] - VF{};
      // GCC contracts this to one fused multiply-add where the instruction set has it.
      for (int c = 0; c < kWide; ++c) sum[i][c] += e * b[c];
    }
  }
  const bool last = a.bias != nullptr && from + n == a.inner;
  for (int i = 0; i < kRows; ++i) {
    for (int c = 0; c < kWide; ++c) {
      if (last) sum[i][c] += load_some(a.bias + j + c * kLanes, width(c));
      store_some(y + i * a.y_stride + c * kLanes, sum[i][c], width(c));
    }
  }
}

// Calls the tile of `rows` rows, 1 to kRows.
template <int kRows, int kWide>
void row_tile_of(int64_t rows, const RowProduct& a, int64_t r, int64_t j, int64_t from, int64_t n,
                 const float* panel) {
  if constexpr (kRows > 0) {
    if (rows == kRows) return row_tile<kRows, kWide>(a, r, j, from, n, panel);
    row_tile_of<kRows - 1, kWide>(rows, a, r, j, from, n, panel);
  }
}

void compute(const RowProduct& a) {
  alignas(64) float packed[kLongPanel * kPanelColumns];
  const int64_t tiles = (a.rows + kProductRows - 1) / kProductRows;
  // A single tile reads packed panels once and in order, so they are not cut.
  const int64_t few = a.panels != nullptr && a.inner > kShortPanel ? a.inner : kShortPanel;
  const int64_t most = tiles > 1 ? kLongPanel : few;
  // Tiles and panels are cut evenly, since a short last one would run at a fraction of the rate.
  const int64_t panels = a.inner > most ? (a.inner + most - 1) / most : 1;  // 1 even if inner is 0
  // Short panels are multiplied in groups, all panels of a group for one tile of rows: a tile then
  // writes long runs of each row of y. One panel at a time, 64 inner elements reach half the rate.
  const bool grouped = tiles > 1 && panels == 1 && a.inner > 0;
  const int64_t group = (grouped ? kLongPanel / a.inner : 1) * kPanelColumns;
  for (int64_t first = 0; first < a.columns; first += group) {
    const int64_t end = first + group < a.columns ? first + group : a.columns;
    for (int64_t p = 0; p < panels; ++p) {
      const int64_t from = a.inner * p / panels, n = a.inner * (p + 1) / panels - from;
      const float* start = packed;  // of the group's panels
      if (a.panels != nullptr) {
        start = a.panels + first * a.inner + from * kPanelColumns;
      } else {
        // One packing serves all rows of the call.
        for (int64_t j = first; j < end; j += kPanelColumns) {
          pack_panel(a, j, from, n, packed + (j - first) * n);
        }
      }
      for (int64_t t = 0; t < tiles; ++t) {
        const int64_t r = a.rows * t / tiles, rows = a.rows * (t + 1) / tiles - r;
        for (int64_t j = first; j < end; j += kPanelColumns) {
          const float* const panel = start + (j - first) * n;
          if (a.columns - j > kLanes) {
            row_tile_of<kProductRows, 2>(rows, a, r, j, from, n, panel);
          } else {
            row_tile_of<kProductRows, 1>(rows, a, r, j, from, n, panel);
          }
        }
      }
    }
  }
}

void compute(const PackColumns& a) {
  static_assert(kPackedColumns % kPanelColumns == 0);
  for (int64_t j = 0; j < a.columns; j += kPanelColumns) {
    pack_panel(a, j, 0, a.inner, a.panels + j * a.inner);
  }
}

}  // namespace

}  // namespace xrun::kernels

#endif

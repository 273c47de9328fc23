#pragma once
// Causal attention along the paths of packs and trees, forward and backward.
//
// A row of queries is one head of one token. A call takes a range of query tokens and one key head,
// and goes through the blocks of keys that some row of the range sees. A block is gathered once,
// with keys transposed so that lanes are keys, and all its rows use it while it is in the cache.
// Each row takes its blocks in the order of its path. The first tokens of a pack may be held from
// an earlier call: their keys and values are read from there, and they have no queries.

#include "kernels/cpu/attention_blocks.h"
#include "kernels/cpu/attention_tile.h"
#include "kernels/cpu/vector.h"

namespace xrun::kernels {

struct AttentionSizes {
  int64_t rows;      // T, tokens with rows here
  int64_t heads;     // H, query heads
  int64_t kv_heads;  // J, key and value heads; divides H
  int64_t head_dim;  // K
  float scale;       // of the scores, usually 1 / sqrt(K)
  int64_t held = 0;  // C, leading tokens of the pack without rows here: token t is row t - held
};

// out = softmax(scale q k^T) v of query tokens [first, last), for the query heads of one key head.
template <class T>
struct PathAttention {
  const T* q;      // [T, H, K]
  const T* k;      // [T, J, K]
  const T* v;      // [T, J, K]
  T* out;          // [T, H, K]
  float* lse;      // [H, T]
  float* scratch;  // attention_scratch floats
  AttentionNodes nodes;
  AttentionSizes sizes;
  int64_t first;  // query tokens [first, last) of the pack
  int64_t last;
  int64_t kv_head;            // the key head, in [0, J)
  const T* held_k = nullptr;  // [C, J, K]; null if nothing is held
  const T* held_v = nullptr;  // [C, J, K]
};

// Gradients of query tokens [first, last), which are whole trees without their held tokens, for
// query heads [head, head + heads) of one key head. No other call may add to the same rows.
template <class T>
struct PathAttentionBackward {
  const T* grad;     // [T, H, K], of out
  const T* q;        // [T, H, K]
  const T* k;        // [T, J, K]
  const T* v;        // [T, J, K]
  const T* out;      // [T, H, K], of the forward
  const float* lse;  // [H, T], of the forward
  T* dq;             // [T, H, K] out
  float* dk;         // [C + T, K] rows of the key head, added to: token t is dk + t * kv_row
  float* dv;         // as dk
  int64_t kv_row;    // elements between two tokens of dk and dv
  float* scratch;    // attention_scratch floats
  AttentionNodes nodes;
  AttentionSizes sizes;
  int64_t first;  // query tokens [first, last) of the pack
  int64_t last;
  int64_t kv_head;  // the key head, in [0, J)
  int64_t head;     // query heads [head, head + heads), all of this key head
  int64_t heads;
  const T* held_k = nullptr;  // [C, J, K]; null if nothing is held
  const T* held_v = nullptr;  // [C, J, K]
};

// Returns the query tokens of a slice, into which a range is cut: about 256 rows, whose state stays
// in the second-level cache and for which gathering a block costs a few percent.
constexpr int64_t query_block(int64_t heads) { return heads >= 256 ? 1 : 256 / heads; }

// Returns the floats of scratch that a forward or backward over `heads` query heads needs.
//   forward   q and out of every row, its RowSum (17 floats) and a position; keys, values, scores
//   backward  more: q, grad and dq of a row, its lse, delta and a position; five tiles of a block
//             (keys, keys_t, values_t, dk, dv); p and ds of a panel of at most 48 rows
constexpr int64_t attention_scratch(int64_t heads, int64_t head_dim) {
  const int64_t rows = heads * query_block(heads), width = padded_head(head_dim);
  return rows * (3 * width + 32) + kKeyBlock * (5 * width + 2 * 48);
}

}  // namespace xrun::kernels

#ifdef XRUN_VECTOR_BYTES

namespace xrun::kernels {

namespace {

// Rows of queries, `heads` for each token, and one block of keys. B is float for a block that was
// gathered, and the storage type for one in a cache.
template <class B>
struct ForwardTiles {
  float* q;          // [rows, width], scaled
  float* out;        // [rows, width]
  RowSum* sums;      // [rows]
  float* scores;     // [kTileRows, kKeyBlock]
  int64_t heads;     // rows of one token
  int64_t width;     // head_dim, padded to whole vectors
  int64_t head_dim;  // K
  const B* keys;     // [head_dim, stride]
  const B* values;   // [keys, width]
  int64_t stride;    // elements between two rows of keys
};

// Up to kTileRows rows attend to the block's keys, of which they see [any.low, any.high).
template <class B>
XRUN_INLINE void attend(const ForwardTiles<B>& f, const int32_t* positions, int64_t block,
                        int64_t count, int64_t window, int64_t row, int64_t rows, SeenKeys any) {
  // Scores begin at column 0, not at any.low, so that a block's vectors are the same whichever of
  // its keys are seen. Columns beyond the block's keys are masked below.
  const int64_t columns = whole_vectors(any.high);
  multiply(TileProduct<B>{f.q + row * f.width, f.width, 1, f.keys, f.stride, f.scores, kKeyBlock,
                          rows, columns, f.head_dim, nullptr});
  float factor[kTileRows];
  for (int64_t r = 0; r < rows; ++r) {
    const SeenKeys seen = seen_keys(positions[(row + r) / f.heads], block, count, window);
    factor[r] = exponentials(f.scores + r * kKeyBlock, columns, seen, f.sums[row + r]);
  }
  // out = factor out + p v. The factor brings the sums of earlier blocks to the row's new maximum.
  multiply(TileProduct<B>{f.scores + any.low, kKeyBlock, 1, f.values + any.low * f.width, f.width,
                          f.out + row * f.width, f.width, rows, f.width, any.high - any.low,
                          factor});
}

// Begins a row: scales and pads q, and clears what is accumulated.
template <class B, class T>
XRUN_INLINE void begin_row(const ForwardTiles<B>& f, int64_t row, const T* q, float scale) {
  widen(q, f.q + row * f.width, f.head_dim, f.width, scale);
  for (int64_t i = 0; i < f.width; i += kLanes) store(f.out + row * f.width + i, VF{});
  clear(f.sums[row]);
}

// Writes the row's output and returns its log-sum-exp.
template <class B, class T>
XRUN_INLINE float end_row(const ForwardTiles<B>& f, int64_t row, T* out) {
  const float sum = total(f.sums[row]), norm = 1.0f / sum;
  each_vector(f.head_dim, [&](int64_t i, int n) {
    store_some(out + i, load(f.out + row * f.width + i) * norm, n);
  });
  return static_cast<float>(double{f.sums[row].most} + __builtin_log(double{sum}));
}

// Returns the rows of one key head.
template <class T>
XRUN_INLINE KeyRows<T> rows_of(const T* held_rows, const T* own, const AttentionSizes& s,
                               int64_t kv_head) {
  const int64_t at = kv_head * s.head_dim;
  return {s.held > 0 ? held_rows + at : nullptr, own + at, s.held, s.kv_heads * s.head_dim};
}

template <class T>
void attend_slice(const PathAttention<T>& a, int64_t first, int64_t last) {
  const AttentionSizes& s = a.sizes;
  const int64_t heads = s.heads / s.kv_heads, width = padded_head(s.head_dim);
  const int64_t rows = (last - first) * heads, head = a.kv_head * heads;
  // scratch: q | out | keys, transposed | values | scores of a tile of rows | RowSum of each row |
  // positions of the tokens.
  float* const keys = a.scratch + 2 * rows * width;
  float* const values = keys + kKeyBlock * width;
  float* const scores = values + kKeyBlock * width;
  const ForwardTiles<float> f{a.scratch,
                              a.scratch + rows * width,
                              reinterpret_cast<RowSum*>(scores + kTileRows * kKeyBlock),
                              scores,
                              heads,
                              width,
                              s.head_dim,
                              keys,
                              values,
                              kKeyBlock};
  const QuerySlice c = find_slice(a.nodes, first, last, reinterpret_cast<int32_t*>(f.sums + rows));
  // The heads of a token are neighbours, so a tile of rows shares its positions and its keys.
  const auto row_at = [&](int64_t r) {
    return ((first - s.held + r / heads) * s.heads + head + r % heads) * s.head_dim;
  };
  for (int64_t r = 0; r < rows; ++r) begin_row(f, r, a.q + row_at(r), s.scale);
  const KeyRows<T> all_keys = rows_of(a.held_k, a.k, s, a.kv_head);
  const KeyRows<T> all_values = rows_of(a.held_v, a.v, s, a.kv_head);
  each_block(a.nodes, c, [&](int64_t node, int64_t position, int64_t from, int64_t to) {
    KeyBlock block;
    bool gathered = false;
    const int64_t end = (to - first) * heads;
    for (int64_t row = (from - first) * heads; row < end; row += kTileRows) {
      const int64_t n = smaller(kTileRows, end - row);
      if (!gathered) find_keys(a.nodes, node, position, block);
      const SeenKeys any =
          seen_by_any(c.position, position, block.count, a.nodes.window, row, row + n, heads);
      if (any.low < any.high) {
        if (!gathered) {
          gather_transposed(block, all_keys, s.head_dim, keys);
          gather(block, all_values, s.head_dim, values);
        }
        gathered = true;
        attend(f, c.position, position, block.count, a.nodes.window, row, n, any);
      }
    }
  });
  for (int64_t r = 0; r < rows; ++r) {
    a.lse[(head + r % heads) * s.rows + first - s.held + r / heads] =
        end_row(f, r, a.out + row_at(r));
  }
}

template <class T>
void compute(const PathAttention<T>& a) {
  const int64_t slice = query_block(a.sizes.heads / a.sizes.kv_heads);
  for (int64_t first = a.first; first < a.last; first += slice) {
    attend_slice(a, first, smaller(a.last, first + slice));
  }
}

// The backward's tiles of one slice and one block of keys.
struct BackwardTiles {
  float* q;         // [rows, width], scaled
  float* grad;      // [rows, width]
  float* dq;        // [rows, width]
  float* lse;       // [rows]
  float* delta;     // [rows], grad . out
  float* keys;      // [kKeyBlock, width]
  float* keys_t;    // [width, kKeyBlock]
  float* values_t;  // [width, kKeyBlock]
  float* dk;        // [kKeyBlock, width]
  float* dv;        // [kKeyBlock, width]
  float* p;         // [kPanelRows, kKeyBlock]
  float* ds;        // [kPanelRows, kKeyBlock]
  int64_t heads;    // rows of one token
  int64_t width;    // head_dim, padded to whole vectors
};

// Rows summed over at once for dk and dv: a few register tiles.
constexpr int64_t kPanelRows = kTileRows * 8;

// Turns a row's scores and dp over a block into p = exp(score - lse) and ds = p (dp - delta), in
// place.
XRUN_INLINE void weights_of(float* score, float* dp, int64_t width, SeenKeys seen, float lse,
                            float delta) {
  const VF shift = VF{} + lse, mean = VF{} + delta;
  for (int64_t j = 0; j < width; j += kLanes) {
    VF s = load(score + j) - shift;
    // exp_of, not exp_of_nonpositive: the lse is rounded to fp32, so s may be slightly above 0.
    VF p = exp_of(s);
    // Selects rather than multiplying by 0, since the exponential of an unseen key may be infinite.
    if (seen.low > j || seen.high < j + kLanes) {
      const VI key = lane_numbers(LaneNumbers()) + static_cast<int32_t>(j);
      const VI out =
          (key < static_cast<int32_t>(seen.low)) | (key >= static_cast<int32_t>(seen.high));
      p = out ? VF{} : p;
      store(dp + j, out ? VF{} : p * (load(dp + j) - mean));
    } else {
      store(dp + j, p * (load(dp + j) - mean));
    }
    store(score + j, p);
  }
}

// Takes up to kPanelRows rows and one block: scores, weights, then the three sums.
XRUN_INLINE void backward_panel(const BackwardTiles& b, const QuerySlice& c, const KeyBlock& block,
                                int64_t window, int64_t row, int64_t rows, SeenKeys any,
                                const float* ones) {
  const int64_t columns = whole_vectors(any.high), width = b.width, keys = any.high - any.low;
  const float *q = b.q + row * width, *grad = b.grad + row * width;
  multiply(TileProduct<float>{q, width, 1, b.keys_t, kKeyBlock, b.p, kKeyBlock, rows, columns,
                              width, nullptr});
  multiply(TileProduct<float>{grad, width, 1, b.values_t, kKeyBlock, b.ds, kKeyBlock, rows, columns,
                              width, nullptr});
  for (int64_t r = 0; r < rows; ++r) {
    const SeenKeys seen =
        seen_keys(c.position[(row + r) / b.heads], block.position, block.count, window);
    weights_of(b.p + r * kKeyBlock, b.ds + r * kKeyBlock, columns, seen, b.lse[row + r],
               b.delta[row + r]);
  }
  const float *p = b.p + any.low, *ds = b.ds + any.low;
  // dq += ds k over the keys of the block; dv += p^T g and dk += ds^T q over the rows of the panel.
  // The transposes are read by swapped strides.
  multiply(TileProduct<float>{ds, kKeyBlock, 1, b.keys + any.low * width, width, b.dq + row * width,
                              width, rows, width, keys, ones});
  multiply(TileProduct<float>{p, 1, kKeyBlock, grad, width, b.dv + any.low * width, width, keys,
                              width, rows, ones});
  multiply(TileProduct<float>{ds, 1, kKeyBlock, q, width, b.dk + any.low * width, width, keys,
                              width, rows, ones});
}

template <class T>
BackwardTiles backward_tiles(const PathAttentionBackward<T>& a, int64_t first, int64_t rows) {
  const AttentionSizes& s = a.sizes;
  const int64_t width = padded_head(s.head_dim), tile = kKeyBlock * width;
  BackwardTiles b;
  b.heads = a.heads, b.width = width;
  b.q = a.scratch, b.grad = b.q + rows * width, b.dq = b.grad + rows * width;
  b.keys = b.dq + rows * width, b.keys_t = b.keys + tile, b.values_t = b.keys_t + tile;
  b.dk = b.values_t + tile, b.dv = b.dk + tile;
  b.p = b.dv + tile, b.ds = b.p + kPanelRows * kKeyBlock;
  b.lse = b.ds + kPanelRows * kKeyBlock, b.delta = b.lse + rows;
  // Rows of the slice are copied out once, since every block reads them.
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t row = first - s.held + r / a.heads, h = a.head + r % a.heads;
    const int64_t at = (row * s.heads + h) * s.head_dim;
    widen(a.q + at, b.q + r * width, s.head_dim, width, s.scale);
    widen(a.grad + at, b.grad + r * width, s.head_dim, width, 1);
    VF sum = {};
    each_vector(s.head_dim, [&](int64_t i, int n) {
      // delta = sum_j p_j dp_j = grad . out (Dao et al. 2022), without a pass over the keys.
      sum += load_some(a.out + at + i, n) * load(b.grad + r * width + i);
    });
    for (int64_t i = 0; i < width; i += kLanes) store(b.dq + r * width + i, VF{});
    b.delta[r] = sum_of(sum);
    b.lse[r] = a.lse[h * s.rows + row];
  }
  return b;
}

template <class T>
void backward_slice(const PathAttentionBackward<T>& a, int64_t first, int64_t last,
                    const float* ones) {
  const AttentionSizes& s = a.sizes;
  const int64_t heads = a.heads, rows = (last - first) * heads;
  const BackwardTiles b = backward_tiles(a, first, rows);
  const int64_t width = b.width;
  const QuerySlice c = find_slice(a.nodes, first, last, reinterpret_cast<int32_t*>(b.delta + rows));
  const KeyRows<T> all_keys = rows_of(a.held_k, a.k, s, a.kv_head);
  const KeyRows<T> all_values = rows_of(a.held_v, a.v, s, a.kv_head);
  each_block(a.nodes, c, [&](int64_t node, int64_t position, int64_t from, int64_t to) {
    KeyBlock block;
    find_keys(a.nodes, node, position, block);
    const int64_t begin = (from - first) * heads, end = (to - first) * heads;
    const SeenKeys all =
        seen_by_any(c.position, position, block.count, a.nodes.window, begin, end, heads);
    if (all.low >= all.high) return;
    // dq needs keys by row, scores need them by column.
    gather(block, all_keys, s.head_dim, b.keys);
    gather_transposed(block, all_keys, s.head_dim, b.keys_t);
    gather_transposed(block, all_values, s.head_dim, b.values_t);
    for (int64_t i = 0; i < block.count * width; i += kLanes) {
      store(b.dk + i, VF{});
      store(b.dv + i, VF{});
    }
    for (int64_t row = begin; row < end; row += kPanelRows) {
      const int64_t n = smaller(kPanelRows, end - row);
      const SeenKeys any =
          seen_by_any(c.position, position, block.count, a.nodes.window, row, row + n, heads);
      if (any.low < any.high) backward_panel(b, c, block, a.nodes.window, row, n, any, ones);
    }
    // The panels have added to the tile, so the gradients in memory are read and written once per
    // block.
    for (int64_t j = all.low; j < all.high; ++j) {
      const int64_t to_row = block.row[j] * a.kv_row;
      each_vector(s.head_dim, [&](int64_t i, int n) {
        float *dk = a.dk + to_row + i, *dv = a.dv + to_row + i;
        store_some(dk, load_some(dk, n) + load(b.dk + j * width + i), n);
        store_some(dv, load_some(dv, n) + load(b.dv + j * width + i), n);
      });
    }
  });
  // The scale of q k^T belongs to dq too; dk has it through the scaled q.
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t row = first - s.held + r / heads, h = a.head + r % heads;
    each_vector(s.head_dim, [&](int64_t i, int n) {
      store_some(a.dq + (row * s.heads + h) * s.head_dim + i, load(b.dq + r * width + i) * s.scale,
                 n);
    });
  }
}

template <class T>
void compute(const PathAttentionBackward<T>& a) {
  const int64_t slice = query_block(a.heads);
  // The factors of `c = factor c + a b` where a product only adds.
  float ones[kPanelRows > kKeyBlock ? kPanelRows : kKeyBlock];
  for (float& value : ones) value = 1;
  for (int64_t first = a.first; first < a.last; first += slice) {
    backward_slice(a, first, smaller(a.last, first + slice), ones);
  }
}

}  // namespace

}  // namespace xrun::kernels

#endif

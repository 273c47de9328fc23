#pragma once
// Causal attention along the paths of packs and trees, forward and backward.
//
// A row of queries is one head of one token. A call takes a range of query tokens and one key head,
// and goes through the blocks of keys that some row of the range sees: every node owns the blocks
// in which positions of its own lie, filled up with the rows above it. A block that the node ends
// is seen by the node alone, a full one by its whole subtree, which in preorder is one range of
// rows. So a block is gathered once, keys transposed so that lanes are keys, and meets all its rows
// while it lies in the cache; a row meets its blocks in the order of its path.

#include "kernels/cpu/attention_tile.h"
#include "kernels/cpu/vector.h"

namespace xrun::kernels {

// The nodes of a pack in preorder (core/model/ops/attention_layout.h).
struct AttentionNodes {
  const int64_t* begin;     // [count + 1] boundaries in rows of the pack
  const int64_t* parent;    // [count], -1: a root
  const int64_t* position;  // [count] position on the path of the first row
  const int64_t* end;       // [count] the row after the subtree
  int64_t count, window;    // a row sees the last `window` positions of its path; 0: all
};

struct AttentionSizes {
  int64_t rows, heads, kv_heads, head_dim;  // of the pack: T, H, G, K
  float scale;
};

// out = softmax(scale q k^T) v of query tokens [first, last), for the query heads of one key head.
template <class T>
struct PathAttention {
  const T* q;      // [T, H, K]
  const T* k;      // [T, G, K]
  const T* v;      // [T, G, K]
  T* out;          // [T, H, K]
  float* lse;      // [H, T]
  float* scratch;  // attention_scratch floats
  AttentionNodes nodes;
  AttentionSizes sizes;
  int64_t first, last, kv_head;
};

// Gradients of query tokens [first, last), one or several whole trees, for query heads [head,
// head + heads) of one key head. The call owns the rows it adds to.
template <class T>
struct PathAttentionBackward {
  const T *grad, *q, *k, *v, *out;
  const float* lse;  // [H, T]
  T* dq;             // [T, H, K] out
  float *dk, *dv;    // the key head's rows, added to: row t is dk + t * kv_row
  int64_t kv_row;
  float* scratch;
  AttentionNodes nodes;
  AttentionSizes sizes;
  int64_t first, last, kv_head, head, heads;
};

// Query tokens that a range is cut into: about 256 rows, whose state stays in the second-level
// cache and for which gathering a block costs a few percent.
constexpr int64_t attention_chunk(int64_t heads) { return heads >= 256 ? 1 : 256 / heads; }

// Floats of scratch of a call over `heads` query heads, forward or backward.
constexpr int64_t attention_scratch(int64_t heads, int64_t head_dim) {
  const int64_t rows = heads * attention_chunk(heads), width = padded_head(head_dim);
  return rows * (3 * width + 32) + kKeyBlock * (5 * width + 2 * 48);
}

}  // namespace xrun::kernels

#ifdef XRUN_VECTOR_BYTES

namespace xrun::kernels {

namespace {

XRUN_INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
XRUN_INLINE int64_t greater(int64_t a, int64_t b) { return a > b ? a : b; }

// The keys of one block: `count` rows of the pack from position `position` of a path on.
struct KeyBlock {
  int64_t row[kKeyBlock];
  int64_t position, count;
};

XRUN_INLINE int64_t node_length(const AttentionNodes& t, int64_t n) {
  return t.begin[n + 1] - t.begin[n];
}

// The block that begins at a position of the path through node n, up to the node's last row.
XRUN_INLINE void find_keys(const AttentionNodes& t, int64_t n, int64_t position, KeyBlock& block) {
  int64_t high = smaller(position + kKeyBlock, t.position[n] + node_length(t, n));
  block.position = position;
  block.count = high - position;
  for (; high > position; n = t.parent[n]) {
    const int64_t low = greater(t.position[n], position);
    for (int64_t p = low; p < high; ++p) {
      block.row[p - position] = t.begin[n] + p - t.position[n];
    }
    high = smaller(high, low);
  }
}

// Calls f(node, position, from, to) for each block of keys that query rows [from, to) of [first,
// last) see, in an order in which every row meets its blocks as on its path.
template <class F>
XRUN_INLINE void each_block(const AttentionNodes& t, int64_t first, int64_t last, int64_t node,
                            int64_t lowest, F f) {
  const int64_t top = t.position[node] + node_length(t, node);
  int64_t position = greater(t.position[node], lowest) / kKeyBlock * kKeyBlock;
  if (node_length(t, node) == 0) return;
  for (; position < top; position += kKeyBlock) {
    // Rows of the node from the block's own first on; of its subtree, if the block is full.
    const int64_t own = t.begin[node] + greater(position - t.position[node], 0);
    const int64_t end = position + kKeyBlock <= top ? t.end[node] : t.begin[node + 1];
    const int64_t from = greater(own, first), to = smaller(end, last);
    if (from < to) f(node, position, from, to);
  }
}

// The nodes above `node`, from its root: calls f for each of them.
template <class F>
XRUN_INLINE void each_above(const AttentionNodes& t, int64_t node, F f) {
  int64_t done = -1;
  while (t.parent[node] >= 0 && done != t.parent[node]) {
    int64_t above = t.parent[node];
    while (t.parent[above] != done) above = t.parent[above];
    f(above);
    done = above;
  }
}

// The node that holds a row.
XRUN_INLINE int64_t node_of(const AttentionNodes& t, int64_t row) {
  int64_t low = 0, high = t.count;  // begin[low] <= row < begin[high]
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    (t.begin[middle] <= row ? low : high) = middle;
  }
  return low;
}

// A chunk of query tokens: their positions, and the blocks of keys that they see.
struct QueryChunk {
  int64_t first, last, node, lowest;
  int32_t* position;  // [last - first]
};

XRUN_INLINE QueryChunk find_chunk(const AttentionNodes& t, int64_t first, int64_t last,
                                  int32_t* position) {
  QueryChunk chunk{first, last, node_of(t, first), 0, position};
  int64_t node = chunk.node, least = int64_t{1} << 32;
  for (int64_t row = first; row < last; ++row) {
    while (row >= t.begin[node + 1]) ++node;
    const int64_t p = t.position[node] + row - t.begin[node];
    position[row - first] = static_cast<int32_t>(p);
    least = smaller(least, p);
  }
  if (t.window > 0) chunk.lowest = greater(0, least + 1 - t.window);
  return chunk;
}

template <class F>
XRUN_INLINE void each_block(const AttentionNodes& t, const QueryChunk& c, F f) {
  each_above(t, c.node, [&](int64_t node) { each_block(t, c.first, c.last, node, c.lowest, f); });
  for (int64_t node = c.node; node < t.count && t.begin[node] < c.last; ++node) {
    each_block(t, c.first, c.last, node, c.lowest, f);
  }
}

// y [width, kKeyBlock]: column j is the block's j-th row of x; columns up to a whole vector, and
// dimensions beyond the head's, are 0. x is the first row of the pack, `stride` apart.
template <class T>
void gather_transposed(const KeyBlock& block, const T* x, int64_t stride, int64_t head_dim,
                       float* y) {
  const int64_t width = padded_head(head_dim);
  for (int64_t j = 0; j < block.count; j += kLanes) {
    for (int64_t i = 0; i < width; i += kLanes) {
      VF lane[kLanes];
#pragma GCC unroll 16
      for (int l = 0; l < kLanes; ++l) {
        const int64_t left = smaller(kLanes, head_dim - i);
        const bool some = j + l < block.count && left > 0;
        lane[l] = VF{};
        if (some) lane[l] = load_some(x + block.row[j + l] * stride + i, static_cast<int>(left));
      }
      transpose(lane);
#pragma GCC unroll 16
      for (int l = 0; l < kLanes; ++l) store(y + (i + l) * kKeyBlock + j, lane[l]);
    }
  }
}

// y [count, width]: the block's rows of x.
template <class T>
void gather(const KeyBlock& block, const T* x, int64_t stride, int64_t head_dim, float* y) {
  const int64_t width = padded_head(head_dim);
  for (int64_t j = 0; j < block.count; ++j) {
    widen(x + block.row[j] * stride, y + j * width, head_dim, width, 1);
  }
}

// The keys that some row of [from, to) sees, given the tokens' positions.
XRUN_INLINE SeenKeys seen_by_any(const QueryChunk& c, const KeyBlock& block, int64_t window,
                                 int64_t from, int64_t to, int64_t heads) {
  SeenKeys all{kKeyBlock, 0};
  for (int64_t token = from / heads; token <= (to - 1) / heads; ++token) {
    const SeenKeys seen = seen_keys(c.position[token], block.position, block.count, window);
    if (seen.low >= seen.high) continue;
    all = {smaller(all.low, seen.low), greater(all.high, seen.high)};
  }
  return all;
}

XRUN_INLINE int64_t whole_vectors(int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

// Rows of queries, `heads` for each token, and one block of keys. B is float where the block was
// gathered, the storage type where it lies in a cache.
template <class B>
struct ForwardTiles {
  float *q, *out;  // [rows, width], q scaled
  RowSum* sums;    // [rows]
  float* scores;   // [kTileRows, kKeyBlock]
  int64_t heads, width, head_dim;
  const B *keys, *values;  // [head_dim, stride], [keys, width]
  int64_t stride;
};

// Up to kTileRows rows meet the block's keys, of which they see [any.low, any.high).
template <class B>
XRUN_INLINE void attend(const ForwardTiles<B>& f, const int32_t* positions, int64_t block,
                        int64_t count, int64_t window, int64_t row, int64_t rows, SeenKeys any) {
  const int64_t columns = whole_vectors(any.high);
  multiply(TileProduct<B>{f.q + row * f.width, f.width, 1, f.keys, f.stride, f.scores, kKeyBlock,
                          rows, columns, f.head_dim, nullptr});
  float factor[kTileRows];
  for (int64_t r = 0; r < rows; ++r) {
    const SeenKeys seen = seen_keys(positions[(row + r) / f.heads], block, count, window);
    factor[r] = exponentials(f.scores + r * kKeyBlock, columns, seen, f.sums[row + r]);
  }
  multiply(TileProduct<B>{f.scores + any.low, kKeyBlock, 1, f.values + any.low * f.width, f.width,
                          f.out + row * f.width, f.width, rows, f.width, any.high - any.low,
                          factor});
}

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

template <class T>
void attend_chunk(const PathAttention<T>& a, int64_t first, int64_t last) {
  const AttentionSizes& s = a.sizes;
  const int64_t heads = s.heads / s.kv_heads, width = padded_head(s.head_dim);
  const int64_t rows = (last - first) * heads, head = a.kv_head * heads;
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
  const QueryChunk c = find_chunk(a.nodes, first, last, reinterpret_cast<int32_t*>(f.sums + rows));
  const auto row_at = [&](int64_t r) {
    return ((first + r / heads) * s.heads + head + r % heads) * s.head_dim;
  };
  for (int64_t r = 0; r < rows; ++r) begin_row(f, r, a.q + row_at(r), s.scale);
  const int64_t stride = s.kv_heads * s.head_dim, at = a.kv_head * s.head_dim;
  each_block(a.nodes, c, [&](int64_t node, int64_t position, int64_t from, int64_t to) {
    KeyBlock block;
    bool gathered = false;
    const int64_t end = (to - first) * heads;
    for (int64_t row = (from - first) * heads; row < end; row += kTileRows) {
      const int64_t n = smaller(kTileRows, end - row);
      if (!gathered) find_keys(a.nodes, node, position, block);
      const SeenKeys any = seen_by_any(c, block, a.nodes.window, row, row + n, heads);
      if (any.low < any.high) {
        if (!gathered) {
          gather_transposed(block, a.k + at, stride, s.head_dim, keys);
          gather(block, a.v + at, stride, s.head_dim, values);
        }
        gathered = true;
        attend(f, c.position, position, block.count, a.nodes.window, row, n, any);
      }
    }
  });
  for (int64_t r = 0; r < rows; ++r) {
    a.lse[(head + r % heads) * s.rows + first + r / heads] = end_row(f, r, a.out + row_at(r));
  }
}

template <class T>
void compute(const PathAttention<T>& a) {
  const int64_t chunk = attention_chunk(a.sizes.heads / a.sizes.kv_heads);
  for (int64_t first = a.first; first < a.last; first += chunk) {
    attend_chunk(a, first, smaller(a.last, first + chunk));
  }
}

// The backward's tiles of one chunk and one block of keys.
struct BackwardTiles {
  float *q, *grad, *dq;             // [rows, width], q scaled
  float *lse, *delta;               // [rows]
  float *keys, *keys_t, *values_t;  // [kKeyBlock, width] and two [width, kKeyBlock]
  float *dk, *dv;                   // [kKeyBlock, width]
  float *p, *ds;                    // [kPanelRows, kKeyBlock]
  int64_t heads, width;
};

// Rows that are summed over at once for dk and dv, a few register tiles.
constexpr int64_t kPanelRows = kTileRows * 8;

// p and ds of a row over a block: p = exp(score - lse), ds = p (dp - delta).
XRUN_INLINE void weights_of(float* score, float* dp, int64_t width, SeenKeys seen, float lse,
                            float delta) {
  const VF shift = VF{} + lse, mean = VF{} + delta;
  for (int64_t j = 0; j < width; j += kLanes) {
    VF s = load(score + j) - shift;
    // Rounding may leave a probability slightly above 1.
    VF p = exp_of(s);
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

XRUN_INLINE void backward_panel(const BackwardTiles& b, const QueryChunk& c, const KeyBlock& block,
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
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t token = first + r / a.heads, h = a.head + r % a.heads;
    const int64_t at = (token * s.heads + h) * s.head_dim;
    widen(a.q + at, b.q + r * width, s.head_dim, width, s.scale);
    widen(a.grad + at, b.grad + r * width, s.head_dim, width, 1);
    VF sum = {};
    each_vector(s.head_dim, [&](int64_t i, int n) {
      sum += load_some(a.out + at + i, n) * load(b.grad + r * width + i);
    });
    for (int64_t i = 0; i < width; i += kLanes) store(b.dq + r * width + i, VF{});
    b.delta[r] = sum_of(sum);
    b.lse[r] = a.lse[h * s.rows + token];
  }
  return b;
}

template <class T>
void backward_chunk(const PathAttentionBackward<T>& a, int64_t first, int64_t last,
                    const float* ones) {
  const AttentionSizes& s = a.sizes;
  const int64_t heads = a.heads, rows = (last - first) * heads;
  const BackwardTiles b = backward_tiles(a, first, rows);
  const int64_t width = b.width;
  const QueryChunk c = find_chunk(a.nodes, first, last, reinterpret_cast<int32_t*>(b.delta + rows));
  const int64_t stride = s.kv_heads * s.head_dim, at = a.kv_head * s.head_dim;
  each_block(a.nodes, c, [&](int64_t node, int64_t position, int64_t from, int64_t to) {
    KeyBlock block;
    find_keys(a.nodes, node, position, block);
    const int64_t begin = (from - first) * heads, end = (to - first) * heads;
    const SeenKeys all = seen_by_any(c, block, a.nodes.window, begin, end, heads);
    if (all.low >= all.high) return;
    gather(block, a.k + at, stride, s.head_dim, b.keys);
    gather_transposed(block, a.k + at, stride, s.head_dim, b.keys_t);
    gather_transposed(block, a.v + at, stride, s.head_dim, b.values_t);
    for (int64_t i = 0; i < block.count * width; i += kLanes) {
      store(b.dk + i, VF{});
      store(b.dv + i, VF{});
    }
    for (int64_t row = begin; row < end; row += kPanelRows) {
      const int64_t n = smaller(kPanelRows, end - row);
      const SeenKeys any = seen_by_any(c, block, a.nodes.window, row, row + n, heads);
      if (any.low < any.high) backward_panel(b, c, block, a.nodes.window, row, n, any, ones);
    }
    for (int64_t j = all.low; j < all.high; ++j) {
      const int64_t to_row = block.row[j] * a.kv_row;
      each_vector(s.head_dim, [&](int64_t i, int n) {
        float *dk = a.dk + to_row + i, *dv = a.dv + to_row + i;
        store_some(dk, load_some(dk, n) + load(b.dk + j * width + i), n);
        store_some(dv, load_some(dv, n) + load(b.dv + j * width + i), n);
      });
    }
  });
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t token = first + r / heads, h = a.head + r % heads;
    each_vector(s.head_dim, [&](int64_t i, int n) {
      store_some(a.dq + (token * s.heads + h) * s.head_dim + i,
                 load(b.dq + r * width + i) * s.scale, n);
    });
  }
}

template <class T>
void compute(const PathAttentionBackward<T>& a) {
  const int64_t chunk = attention_chunk(a.heads);
  float ones[kPanelRows > kKeyBlock ? kPanelRows : kKeyBlock];
  for (float& one : ones) one = 1;
  for (int64_t first = a.first; first < a.last; first += chunk) {
    backward_chunk(a, first, smaller(a.last, first + chunk), ones);
  }
}

}  // namespace

}  // namespace xrun::kernels

#endif

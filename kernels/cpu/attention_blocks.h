#pragma once
// Finds and gathers the blocks of keys that the rows of a pack see.
//
// Every node owns the blocks that contain its positions, filled up with the rows above it. Only the
// node sees a block that it ends before the block is full; its whole subtree, one range of rows in
// preorder, sees a full block.

#include "kernels/cpu/attention_tile.h"
#include "kernels/cpu/vector.h"

namespace xrun::kernels {

// The nodes of a pack in preorder (core/model/ops/attention_layout.h).
struct AttentionNodes {
  const int64_t* begin;     // [count + 1] boundaries in rows of the pack
  const int64_t* parent;    // [count], -1: a root
  const int64_t* position;  // [count] position on the path of the first row
  const int64_t* end;       // [count] the row after the subtree
  int64_t count;            // of nodes
  int64_t window;           // a row sees the last `window` positions of its path; 0: all
};

}  // namespace xrun::kernels

#ifdef XRUN_VECTOR_BYTES

namespace xrun::kernels {

namespace {

XRUN_INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
XRUN_INLINE int64_t greater(int64_t a, int64_t b) { return a > b ? a : b; }

// The keys of one block: `count` rows of the pack, from `position` of a path on.
struct KeyBlock {
  int64_t row[kKeyBlock];  // [count] rows of the pack
  int64_t position;
  int64_t count;  // at most kKeyBlock
};

// Keys or values of one key head of a pack. The first `held` rows are stored apart.
template <class T>
struct KeyRows {
  const T* held_rows;  // [held, K]; null if nothing is held
  const T* own;        // [T, K]
  int64_t held;        // C
  int64_t stride;      // elements between two rows, in both
};

// Returns row r. This takes one branch per row, outside the loops over its elements.
template <class T>
XRUN_INLINE const T* key_row(const KeyRows<T>& x, int64_t r) {
  return r < x.held ? x.held_rows + r * x.stride : x.own + (r - x.held) * x.stride;
}

XRUN_INLINE int64_t node_length(const AttentionNodes& t, int64_t n) {
  return t.begin[n + 1] - t.begin[n];
}

// Finds the block that begins at a position of the path through node n and ends at the node's last
// row at the latest.
XRUN_INLINE void find_keys(const AttentionNodes& t, int64_t n, int64_t position, KeyBlock& block) {
  // Goes from the last key to the first, one node of the path at a time, since a block may span
  // several nodes.
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

// Calls f(node, position, from, to) for each block of a node, from the one that contains position
// `lowest` on, where [from, to) are the query rows of [first, last) that see it.
template <class F>
XRUN_INLINE void each_block_of(int64_t node, const AttentionNodes& t, int64_t first, int64_t last,
                               int64_t lowest, F f) {
  const int64_t top = t.position[node] + node_length(t, node);
  // The block of the first key that a row may see. With a window, earlier blocks are skipped.
  int64_t position = greater(t.position[node], lowest) / kKeyBlock * kKeyBlock;
  if (node_length(t, node) == 0) return;
  for (; position < top; position += kKeyBlock) {
    // The node's rows from the block's first on, and those of its subtree if the block is full.
    const int64_t own = t.begin[node] + greater(position - t.position[node], 0);
    const int64_t end = position + kKeyBlock <= top ? t.end[node] : t.begin[node + 1];
    const int64_t from = greater(own, first), to = smaller(end, last);
    if (from < to) f(node, position, from, to);
  }
}

// Calls f for each node above `node`, from its root.
template <class F>
XRUN_INLINE void each_above(const AttentionNodes& t, int64_t node, F f) {
  // Each round climbs from the node to the one below the last that was visited, since nodes know
  // only their parents. This takes depth^2 / 2 steps, but no stack and no memory.
  int64_t done = -1;
  while (t.parent[node] >= 0 && done != t.parent[node]) {
    int64_t above = t.parent[node];
    while (t.parent[above] != done) above = t.parent[above];
    f(above);
    done = above;
  }
}

// Returns the node that holds a row.
XRUN_INLINE int64_t node_of(const AttentionNodes& t, int64_t row) {
  int64_t low = 0, high = t.count;  // begin[low] <= row < begin[high]
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    (t.begin[middle] <= row ? low : high) = middle;
  }
  return low;
}

// A slice of query tokens: their positions, and the blocks of keys that they see.
struct QuerySlice {
  int64_t first;  // query tokens [first, last) of the pack
  int64_t last;
  int64_t node;       // the one that holds `first`
  int64_t lowest;     // position of the first key that any of them sees through the window
  int32_t* position;  // [last - first] of the tokens on their paths
};

XRUN_INLINE QuerySlice find_slice(const AttentionNodes& t, int64_t first, int64_t last,
                                  int32_t* position) {
  // A row of the slice may start a branch, at a lower position than the row before it, so the
  // window counts from the least position.
  QuerySlice slice{first, last, node_of(t, first), 0, position};
  int64_t node = slice.node, least = int64_t{1} << 32;
  for (int64_t row = first; row < last; ++row) {
    while (row >= t.begin[node + 1]) ++node;
    const int64_t p = t.position[node] + row - t.begin[node];
    position[row - first] = static_cast<int32_t>(p);
    least = smaller(least, p);
  }
  if (t.window > 0) slice.lowest = greater(0, least + 1 - t.window);
  return slice;
}

// Calls f as each_block_of does, for all nodes whose blocks some row of the slice sees. Every row
// gets its blocks in the order of its path.
template <class F>
XRUN_INLINE void each_block(const AttentionNodes& t, const QuerySlice& c, F f) {
  // Nodes above come first, from the root, then the slice's own nodes in preorder. A node above a
  // later node of the slice is one of these two.
  each_above(t, c.node,
             [&](int64_t node) { each_block_of(node, t, c.first, c.last, c.lowest, f); });
  for (int64_t node = c.node; node < t.count && t.begin[node] < c.last; ++node) {
    each_block_of(node, t, c.first, c.last, c.lowest, f);
  }
}

// Fills y [width, kKeyBlock]: column j is the block's j-th row of x. Further columns up to a whole
// vector, and dimensions beyond the head's, are 0.
template <class T>
void gather_transposed(const KeyBlock& block, const KeyRows<T>& x, int64_t head_dim, float* y) {
  const int64_t width = padded_head(head_dim);
  for (int64_t j = 0; j < block.count; j += kLanes) {
    for (int64_t i = 0; i < width; i += kLanes) {
      // A square of kLanes keys times kLanes dimensions goes through registers.
      VF lane[kLanes];
#pragma GCC unroll 16
      for (int l = 0; l < kLanes; ++l) {
        const int64_t left = smaller(kLanes, head_dim - i);
        const bool some = j + l < block.count && left > 0;
        lane[l] = VF{};
        if (some) lane[l] = load_some(key_row(x, block.row[j + l]) + i, static_cast<int>(left));
      }
      transpose(lane);
#pragma GCC unroll 16
      for (int l = 0; l < kLanes; ++l) store(y + (i + l) * kKeyBlock + j, lane[l]);
    }
  }
}

// Fills y [count, width] with the block's rows of x.
template <class T>
void gather(const KeyBlock& block, const KeyRows<T>& x, int64_t head_dim, float* y) {
  const int64_t width = padded_head(head_dim);
  for (int64_t j = 0; j < block.count; ++j) {
    widen(key_row(x, block.row[j]), y + j * width, head_dim, width, 1);
  }
}

// Returns the range of keys that the rows [from, to) see, given the tokens' positions.
XRUN_INLINE SeenKeys seen_by_any(const int32_t* positions, int64_t block, int64_t count,
                                 int64_t window, int64_t from, int64_t to, int64_t heads) {
  SeenKeys all{kKeyBlock, 0};
  for (int64_t token = from / heads; token <= (to - 1) / heads; ++token) {
    const SeenKeys seen = seen_keys(positions[token], block, count, window);
    if (seen.low >= seen.high) continue;
    all = {smaller(all.low, seen.low), greater(all.high, seen.high)};
  }
  return all;
}

// Returns n rounded up to whole vectors, in which columns are computed; further ones are masked.
XRUN_INLINE int64_t whole_vectors(int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

}  // namespace

}  // namespace xrun::kernels

#endif

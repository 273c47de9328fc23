// FoldedPack::validate checks nodes first; all other fields follow from them and the batch.

#include <algorithm>

#include "core/base/error.h"
#include "core/prefix/folded_pack.h"

namespace xrun {

namespace {

using PackField = std::vector<int32_t>;

// All messages name the field and the index, as PackedBatch::validate() does.
void check_size(const PackField& field, const char* name, size_t want, const char* dimension) {
  XRUN_CHECK(field.size() == want, "fold: {} has {} entries, {} is {}", name, field.size(),
             dimension, want);
}

void check_value(const PackField& field, const char* name, size_t i, int64_t want) {
  XRUN_CHECK(field[i] == want, "fold: {}[{}] is {}, wanted {}", name, i, field[i], want);
}

void check_range(const PackField& field, const char* name, int64_t low, size_t limit) {
  for (size_t i = 0; i < field.size(); ++i) {
    XRUN_CHECK(field[i] >= low && field[i] < static_cast<int64_t>(limit),
               "fold: {}[{}] is {}, wanted {} to {}", name, i, field[i], low,
               static_cast<int64_t>(limit) - 1);
  }
}

void check_nodes(const FoldedPack& fold) {
  const PackField& begin = fold.node_begin;
  XRUN_CHECK(!begin.empty() && begin[0] == 0, "fold: node_begin must begin with 0");
  for (size_t n = 1; n < begin.size(); ++n) {
    XRUN_CHECK(begin[n] > begin[n - 1], "fold: node_begin[{}] is {}, wanted more than {}", n,
               begin[n], begin[n - 1]);
  }
  XRUN_CHECK(begin.back() == fold.token_count(), "fold: node_begin ends with {}, F is {}",
             begin.back(), fold.token_count());
  check_size(fold.parent, "parent", begin.size() - 1, "N");
  // The nodes from the root to the one before. In preorder the parent of a node is one of them; the
  // subtree of any other node has ended.
  PackField path;
  for (size_t n = 0; n < fold.parent.size(); ++n) {
    const int32_t parent = fold.parent[n];
    XRUN_CHECK(parent >= -1 && parent < static_cast<int64_t>(n),
               "fold: parent[{}] is {}, wanted -1 or a node before it", n, parent);
    // Pops the subtrees that have ended; `parent` must be among those still open.
    while (!path.empty() && path.back() != parent) path.pop_back();
    XRUN_CHECK(parent < 0 || !path.empty(),
               "fold: parent[{}] is {}, but the subtree of node {} has ended; nodes must nest in "
               "preorder",
               n, parent, parent);
    path.push_back(static_cast<int32_t>(n));
  }
}

void check_tokens(const FoldedPack& fold) {
  const size_t count = fold.tokens.size();
  check_size(fold.position_ids, "position_ids", count, "F");
  check_size(fold.prev, "prev", count, "F");
  check_size(fold.end, "end", count, "F");
  // A subtree ends with its last node. Nodes follow their parents, so one pass from the end
  // suffices. The builder is not called, since the check would repeat its faults.
  PackField ends(fold.node_begin.begin() + 1, fold.node_begin.end());
  for (size_t n = ends.size(); n-- > 0;) {
    if (fold.parent[n] < 0) continue;
    int32_t& above = ends[static_cast<size_t>(fold.parent[n])];
    above = std::max(above, ends[n]);
  }
  for (size_t n = 0; n < ends.size(); ++n) {
    const size_t begin = static_cast<size_t>(fold.node_begin[n]);
    for (size_t t = begin; t < static_cast<size_t>(fold.node_begin[n + 1]); ++t) {
      const int32_t parent = fold.parent[n];
      const int64_t branch =
          parent < 0 ? -1 : int64_t{fold.node_begin[static_cast<size_t>(parent) + 1]} - 1;
      // Inside a node, prev is the neighbour; at its start, the parent's last token.
      check_value(fold.prev, "prev", t, t > begin ? static_cast<int64_t>(t) - 1 : branch);
      check_value(fold.end, "end", t, ends[n]);
      const int32_t prev = fold.prev[t];
      // Positions are depths: they follow prev and do not restart at a node.
      check_value(fold.position_ids, "position_ids", t,
                  prev < 0 ? 0 : int64_t{fold.position_ids[static_cast<size_t>(prev)]} + 1);
    }
  }
}

void check_segments(const FoldedPack& fold, const PackedBatch& batch) {
  check_size(fold.flat_of, "flat_of", batch.tokens.size(), "T");
  check_range(fold.flat_of, "flat_of", 0, fold.tokens.size());
  check_size(fold.leaf, "leaf", static_cast<size_t>(batch.segment_count()), "S");
  check_range(fold.leaf, "leaf", 0, fold.parent.size());
  PackField segments(fold.parent.size(), 0);
  for (size_t s = 0; s < fold.leaf.size(); ++s) {
    int32_t before = -1;
    // The segment must walk its path without a gap: every slot's prev is the slot before.
    for (int32_t i = batch.cu_seqlens[s]; i < batch.cu_seqlens[s + 1]; ++i) {
      const size_t t = static_cast<size_t>(i), slot = static_cast<size_t>(fold.flat_of[t]);
      XRUN_CHECK(
          fold.tokens[slot] == batch.tokens[t] && fold.position_ids[slot] == batch.position_ids[t],
          "fold: flat_of[{}] is {}, token {} at position {}; wanted token {} at position {}", t,
          slot, fold.tokens[slot], fold.position_ids[slot], batch.tokens[t], batch.position_ids[t]);
      XRUN_CHECK(fold.prev[slot] == before,
                 "fold: flat_of[{}] is {}, which follows slot {}; segment {} comes from slot {}", t,
                 slot, fold.prev[slot], s, before);
      before = static_cast<int32_t>(slot);
    }
    // A segment ends with the last token of its leaf: a shorter one would have split the node.
    XRUN_CHECK(before + 1 == fold.node_begin[static_cast<size_t>(fold.leaf[s]) + 1],
               "fold: leaf[{}] is {}, the segment ends in slot {}", s, fold.leaf[s], before);
    // Recounts the segments through each node, from the leaf to the root.
    for (int32_t n = fold.leaf[s]; n >= 0; n = fold.parent[static_cast<size_t>(n)]) {
      ++segments[static_cast<size_t>(n)];
    }
  }
  check_size(fold.segments, "segments", segments.size(), "N");
  for (size_t n = 0; n < segments.size(); ++n) {
    // A node without a segment would be computed for nothing.
    XRUN_CHECK(segments[n] > 0, "fold: no segment goes through node {}", n);
    check_value(fold.segments, "segments", n, segments[n]);
  }
}

// Hidden rows ascend strictly, edges by hidden row; each loss row must name its own edge.
void check_edges(const FoldedPack& fold, const PackedBatch& batch) {
  check_range(fold.hidden, "hidden", 0, fold.tokens.size());
  for (size_t h = 1; h < fold.hidden.size(); ++h) {
    XRUN_CHECK(fold.hidden[h] > fold.hidden[h - 1], "fold: hidden[{}] is {}, wanted more than {}",
               h, fold.hidden[h], fold.hidden[h - 1]);
  }
  check_size(fold.edge_target, "edge_target", fold.edge_hidden.size(), "E");
  check_range(fold.edge_hidden, "edge_hidden", 0, fold.hidden.size());
  for (size_t e = 1; e < fold.edge_hidden.size(); ++e) {
    XRUN_CHECK(fold.edge_hidden[e] >= fold.edge_hidden[e - 1],
               "fold: edge_hidden[{}] is {}, wanted at least {}", e, fold.edge_hidden[e],
               fold.edge_hidden[e - 1]);
  }
  check_size(fold.row_edge, "row_edge", batch.rows.hidden.size(), "R");
  check_range(fold.row_edge, "row_edge", 0, fold.edge_hidden.size());
  for (size_t r = 0; r < fold.row_edge.size(); ++r) {
    const size_t edge = static_cast<size_t>(fold.row_edge[r]);
    const int32_t slot = fold.hidden[static_cast<size_t>(fold.edge_hidden[edge])];
    const int32_t want = fold.flat_of[static_cast<size_t>(batch.rows.hidden[r])];
    XRUN_CHECK(slot == want && fold.edge_target[edge] == batch.rows.target[r],
               "fold: row_edge[{}] is {}, from slot {} to token {}; wanted slot {} to token {}", r,
               edge, slot, fold.edge_target[edge], want, batch.rows.target[r]);
  }
}

}  // namespace

// The order matters: each check indexes by fields that the one before has proved.
void FoldedPack::validate(const PackedBatch& batch) const {
  check_nodes(*this);
  check_tokens(*this);
  check_segments(*this, batch);
  check_edges(*this, batch);
}

}  // namespace xrun

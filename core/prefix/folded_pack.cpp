// The trie of a pack's segments, written out in preorder: node n holds tokens [begin(n), end(n)) of
// any segment through it, and slot t of a segment is at node_begin[n] + depth(t) - begin(n).

#include "core/prefix/folded_pack.h"

#include <algorithm>
#include <numeric>

#include "core/base/error.h"
#include "core/data/packs/prefix_trie.h"

namespace xrun {

namespace {

size_t at(int64_t index) { return static_cast<size_t>(index); }

// token_keys replace the tokens in comparisons; equal tokens with different keys are not shared.
PrefixTrie trie_of(const PackedBatch& batch, const FoldOptions& options) {
  const std::vector<int32_t>& keys = options.token_keys.empty() ? batch.tokens : options.token_keys;
  XRUN_CHECK(keys.size() == batch.tokens.size(), "folding: token_keys has {} entries for {} tokens",
             keys.size(), batch.tokens.size());
  std::vector<TokenList> segments;
  std::vector<int64_t> lengths;
  for (int64_t s = 0; s < batch.segment_count(); ++s) {
    const int32_t begin = batch.cu_seqlens[at(s)];
    lengths.push_back(batch.cu_seqlens[at(s) + 1] - begin);
    segments.emplace_back(keys.data() + begin, at(lengths.back()));
  }
  return prefix_trie(lengths, sort_lists(segments, options.frequency_classes), options.min_run);
}

// Returns the end of each node's subtree, in tokens.
std::vector<int32_t> subtree_ends(const FoldedPack& fold) {
  std::vector<int32_t> ends(fold.node_begin.begin() + 1, fold.node_begin.end());
  // Children follow their parent, so one pass from the end sees every subtree complete.
  for (size_t n = ends.size(); n-- > 0;) {
    if (fold.parent[n] < 0) continue;
    int32_t& above = ends[at(fold.parent[n])];
    above = std::max(above, ends[n]);
  }
  return ends;
}

// Nodes in preorder, so a node's tokens follow those of its parent.
void write_nodes(const PackedBatch& batch, const PrefixTrie& trie, FoldedPack& fold) {
  for (size_t n = 0; n < trie.parent.size(); ++n) {
    fold.node_begin.push_back(fold.node_begin.back() + trie.end[n] - trie.begin(n));
  }
  const size_t count = at(fold.node_begin.back());
  fold.tokens.resize(count);
  fold.position_ids.resize(count);
  fold.prev.resize(count);
  fold.end.resize(count);
  const std::vector<int32_t> ends = subtree_ends(fold);
  for (size_t n = 0; n < trie.parent.size(); ++n) {
    const int32_t begin = fold.node_begin[n], end = fold.node_begin[n + 1];
    // All segments through the node have the same tokens; the first of them is copied.
    const int32_t from = batch.cu_seqlens[at(trie.first[n])] + trie.begin(n);
    std::copy_n(batch.tokens.begin() + from, end - begin, fold.tokens.begin() + begin);
    std::copy_n(batch.position_ids.begin() + from, end - begin, fold.position_ids.begin() + begin);
    std::iota(fold.prev.begin() + begin, fold.prev.begin() + end, begin - 1);
    // The first token of a node follows the last one of its parent; the others follow each other.
    fold.prev[at(begin)] = trie.parent[n] < 0 ? -1 : fold.node_begin[at(trie.parent[n]) + 1] - 1;
    // All tokens of a node have the same end, so that a query sees the keys k <= q whose subtree
    // contains it: k <= q and q < end[k].
    std::fill(fold.end.begin() + begin, fold.end.begin() + end, ends[n]);
  }
}

// flat_of[t] is the computed slot of logical slot t.
void write_slots(const PackedBatch& batch, const PrefixTrie& trie, FoldedPack& fold) {
  fold.flat_of.resize(batch.tokens.size());
  for (size_t s = 0; s < trie.leaf.size(); ++s) {
    const auto segment = fold.flat_of.begin() + batch.cu_seqlens[s];
    // From the leaf up to the root: each node covers one run of the segment's tokens.
    for (int32_t n = trie.leaf[s]; n >= 0; n = trie.parent[at(n)]) {
      std::iota(segment + trie.begin(at(n)), segment + trie.end[at(n)], fold.node_begin[at(n)]);
    }
  }
}

// Siblings whose common prefix is too short to share may begin with the same token: the last token
// of their parent then predicts one target for both. Returns (slot, slot of the first such sibling)
// for the others; both slots begin a node.
std::vector<std::pair<int32_t, int32_t>> same_targets(const FoldedPack& fold) {
  // Only first tokens of nodes can share a target; inside a node each slot has one successor.
  std::vector<int32_t> children;
  for (size_t n = 0; n < fold.parent.size(); ++n) {
    if (fold.parent[n] >= 0) children.push_back(fold.node_begin[n]);
  }
  // All children of a node have the same prev.
  const auto target = [&](int32_t slot) {
    return std::pair(fold.prev[at(slot)], fold.tokens[at(slot)]);
  };
  std::stable_sort(children.begin(), children.end(),
                   [&](int32_t a, int32_t b) { return target(a) < target(b); });
  std::vector<std::pair<int32_t, int32_t>> same;
  size_t first = 0;
  for (size_t i = 1; i < children.size(); ++i) {
    if (target(children[i]) == target(children[first])) {
      same.emplace_back(children[i], children[first]);
    } else {
      first = i;
    }
  }
  return same;
}

// An edge is one (hidden row, target) pair, however many loss rows train it. It is found by the
// slot of its target, which follows exactly one hidden row.
void write_edges(const PackedBatch& batch, FoldedPack& fold) {
  // Mark the targets, sort them by hidden row, number the edges.
  const std::vector<std::pair<int32_t, int32_t>> same = same_targets(fold);
  std::vector<int32_t> edge_of(fold.tokens.size(), 0);  // by slot: 1 for a target, later its edge
  for (const int32_t t : batch.rows.hidden) edge_of[at(fold.flat_of[at(t) + 1])] = 1;
  for (const auto& [slot, first] : same) {
    // Merges the mark into the first sibling's slot, so that the target is one edge.
    edge_of[at(first)] |= edge_of[at(slot)];
    edge_of[at(slot)] = 0;
  }
  // A counting sort of targets by hidden row, so that both index lists ascend.
  std::vector<int32_t> next(fold.tokens.size(), 0);  // edges of a hidden row, then its next edge
  for (size_t u = 0; u < edge_of.size(); ++u) {
    if (edge_of[u] != 0) ++next[at(fold.prev[u])];
  }
  int32_t edges = 0;
  for (size_t h = 0; h < next.size(); ++h) {
    const int32_t count = next[h];
    next[h] = edges;
    if (count == 0) continue;
    fold.edge_hidden.insert(fold.edge_hidden.end(), at(count),
                            static_cast<int32_t>(fold.hidden.size()));
    fold.hidden.push_back(static_cast<int32_t>(h));
    edges += count;
  }
  fold.edge_target.resize(at(edges));
  for (size_t u = 0; u < edge_of.size(); ++u) {
    if (edge_of[u] == 0) continue;
    edge_of[u] = next[at(fold.prev[u])]++;
    fold.edge_target[at(edge_of[u])] = fold.tokens[u];
  }
  // The slots that were merged away share the edge of the first sibling.
  for (const auto& [slot, first] : same) edge_of[at(slot)] = edge_of[at(first)];
  fold.row_edge.reserve(batch.rows.hidden.size());
  for (const int32_t t : batch.rows.hidden) {
    fold.row_edge.push_back(edge_of[at(fold.flat_of[at(t) + 1])]);
  }
}

}  // namespace

// At least 1: folding never adds tokens.
double FoldedPack::ratio() const {
  if (tokens.empty()) return 1;
  return static_cast<double>(logical_tokens()) / static_cast<double>(token_count());
}

FoldedPack fold_pack(const PackedBatch& batch, const FoldOptions& options) {
  PrefixTrie trie = trie_of(batch, options);
  FoldedPack fold;
  fold.parent = trie.parent;
  write_nodes(batch, trie, fold);
  write_slots(batch, trie, fold);
  write_edges(batch, fold);
  fold.segments = std::move(trie.lists);
  fold.leaf = std::move(trie.leaf);
  return fold;
}

// The gradient depends on the sum of the weights of an edge's rows; `share` decides how they count.
std::vector<float> row_weights(const PackedBatch& batch, const FoldedPack& fold, SharedRows share) {
  std::vector<float> weights = batch.rows.weight;
  if (share == SharedRows::kBranchMean) {
    // [N] segments through the root above each node: the K of its rows' weights.
    std::vector<int32_t> root_segments = fold.segments;
    for (size_t n = 0; n < root_segments.size(); ++n) {
      // Parents come first, so a parent already has the number of its root.
      if (fold.parent[n] >= 0) root_segments[n] = root_segments[at(fold.parent[n])];
    }
    for (size_t r = 0; r < weights.size(); ++r) {
      const int32_t leaf = fold.leaf[at(batch.rows.segment[r])];
      weights[r] /= static_cast<float>(root_segments[at(leaf)]);
    }
  } else if (share == SharedRows::kOwnOnce) {
    std::vector<uint8_t> trained(fold.edge_target.size(), 0);
    for (size_t r = 0; r < weights.size(); ++r) {
      // A row of weight 0 does not use up the edge: a later row of positive weight may still train
      // it.
      if (weights[r] <= 0) continue;
      uint8_t& done = trained[at(fold.row_edge[r])];
      if (done != 0) weights[r] = 0;
      done = 1;
    }
  }
  return weights;
}

PrefixBreak prefix_break(std::span<const int32_t> a, std::span<const int32_t> b) {
  const size_t position = at(common_prefix(a, b));
  return {static_cast<int64_t>(position), position < a.size() ? a[position] : -1,
          position < b.size() ? b[position] : -1};
}

}  // namespace xrun

#pragma once
// A folded pack: the tokens of a PackedBatch as a tree, in which shared prefixes are computed once.
// The PackedBatch does not change.

#include <cstdint>
#include <span>
#include <vector>

#include "core/config/config_field.h"
#include "core/data/packs/packed_batch.h"

namespace xrun {

struct FoldOptions {
  int64_t min_run = kFoldMin;  // tokens of the shortest run that is shared; 1: every shared prefix
  // [S] The class of each segment's rotary frequencies, on which its hidden states depend. Segments
  // share only where it is equal. Empty: all are equal.
  std::vector<int64_t> frequency_classes = {};
  // [T] A key for the token and the experts that it takes. Tokens are shared only if their keys and
  // all keys before them are equal. Equal keys imply equal tokens. Empty: the token is the key.
  std::vector<int32_t> token_keys = {};
};

// T tokens in S segments with R loss rows, folded into F tokens in N nodes. A node is a run of
// tokens that the same segments share. Nodes are in preorder; roots, and the children of a node,
// are in the order of their first segments, so that a pack without shared prefixes is folded into
// itself. An edge is a distinct (hidden row, target) of the loss rows; each loss row has an edge,
// and each edge a hidden row.
struct FoldedPack {
  std::vector<int32_t> tokens;        // [F]
  std::vector<int32_t> position_ids;  // [F] depth of the token on its path
  std::vector<int32_t> prev;          // [F] slot of the token before it on its path; -1 at a root
  std::vector<int32_t> end;           // [F] end of the subtree of the token's node
  std::vector<int32_t> flat_of;       // [T] slot of each token of the pack

  std::vector<int32_t> node_begin = {0};  // [N + 1] strictly increasing, 0 first and F last
  std::vector<int32_t> parent;            // [N] the node above, a lower number; -1: a root
  std::vector<int32_t> segments;          // [N] number of segments through the node
  std::vector<int32_t> leaf;              // [S] node in which the segment ends

  std::vector<int32_t> hidden;       // [U] slots whose hidden states predict, strictly increasing
  std::vector<int32_t> edge_hidden;  // [E] index into hidden, ascending
  std::vector<int32_t> edge_target;  // [E] token id
  std::vector<int32_t> row_edge;     // [R] edge of each loss row

  int64_t token_count() const { return static_cast<int64_t>(tokens.size()); }
  int64_t logical_tokens() const { return static_cast<int64_t>(flat_of.size()); }
  int64_t node_count() const { return static_cast<int64_t>(parent.size()); }
  // Returns the tokens of the pack per computed token, >= 1; 1 for an empty pack.
  double ratio() const;

  // Throws Error that names field, index and value at the first of
  //   nodes     that do not nest in preorder
  //   prev, end that do not follow from the nodes
  //   a slot    with another token or position than the batch's
  //   a segment that leaves its path
  //   an edge   that is not the loss row's
  void validate(const PackedBatch& batch) const;
};

// Returns the tree with the fewest tokens whose shared runs have at least min_run tokens
// (prefix_trie). The weights of loss rows are not read. Requires a valid batch. Throws Error for
// frequency_classes or token_keys of another length and a min_run below 1.
FoldedPack fold_pack(const PackedBatch& batch, const FoldOptions& options = {});

// The weights of loss rows whose edge several segments share.
enum class SharedRows {
  kPerSample,   // every row counts: the loss of the separate sequences
  kBranchMean,  // every row counts 1 / K for K segments through its root: an edge that g of them
                // share weighs g / K (Tree Training, arXiv 2511.00413)
  kOwnOnce,     // the first row of positive weight counts, the others do not: agents' calls that
                // replay earlier turns as context
};

// Returns the weights of the batch's loss rows under `share`, [R].
std::vector<float> row_weights(const PackedBatch& batch, const FoldedPack& fold, SharedRows share);

// The first position at which two segments differ, where their shared prefix ends.
struct PrefixBreak {
  int64_t position = 0;  // tokens that both share
  int32_t token_a = -1;  // the token of each there; -1: the segment has ended
  int32_t token_b = -1;
};
PrefixBreak prefix_break(std::span<const int32_t> a, std::span<const int32_t> b);

}  // namespace xrun

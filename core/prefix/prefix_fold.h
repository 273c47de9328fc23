#pragma once
// The prefix tree of one prompt and its completions as plain lists, exactly as NeMo Automodel lays
// it out. Its labels lose the first token of every completion; fold_pack loses none.

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace xrun {

// One prompt and its sampled completions.
struct RolloutGroup {
  std::vector<int64_t> prompt_ids;  // may be empty
  std::vector<std::vector<int64_t>> completions;
};

// T tokens: the prompt once, then the N completions in order. Node 0 is the prompt, node i + 1 is
// completion i.
struct FoldedRollouts {
  std::vector<int64_t> input_ids;  // [T]
  std::vector<int64_t> labels;     // [T] the next token of the same completion; ignore_idx for the
                                   // prompt and for the last token of each completion
  std::vector<int64_t> position_ids;  // [T] every completion continues after the prompt
  std::vector<int64_t> node_lengths;  // [N + 1]
  std::vector<std::vector<int64_t>> sample_paths;  // [N] node 0 is in none if the prompt is empty
};

// Throws Error for a group without completions, an empty completion, and 2^31 tokens or more.
FoldedRollouts fold_shared_prefix(const RolloutGroup& group, int64_t ignore_idx = -100);

// Folds a batch by NeMo Automodel's collate rule. Throws Error unless it is exactly one group.
FoldedRollouts collate_groups(std::span<const RolloutGroup> groups, int64_t ignore_idx = -100);

using TokenRange = std::array<int64_t, 2>;  // half open

// The attention mask of a tree as rectangles, one entry each.
struct TreeSlices {
  std::vector<TokenRange> q_ranges, k_ranges;
  std::vector<std::string> types;                            // "causal" or "full"
  std::vector<std::vector<TokenRange>> sample_token_ranges;  // of the nodes on each path
};

// Returns the slices of a tree of any depth. For each path and each node on it they are the causal
// square of the node, then a full rectangle for every node above it, root first; each rectangle
// once. Nodes follow one another in the order of node_lengths. Throws Error that names field, index
// and value for
//   node_lengths  a negative length, 2^31 tokens or more
//   sample_paths  a path without nodes, a node out of range, a node with two parents (paths that do
//                 not nest or form a cycle), more than 2^24 slices
TreeSlices tree_slices(std::span<const int64_t> node_lengths,
                       std::span<const std::vector<int64_t>> sample_paths);

}  // namespace xrun

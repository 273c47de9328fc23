// Layout and slices follow nemo_automodel/components/datasets/llm/prefix_tree.py and AttnMaskSpec
// of NVIDIA-NeMo/Automodel, and so do the error messages that it has.

#include "core/prefix/prefix_fold.h"

#include <limits>
#include <numeric>
#include <set>
#include <tuple>

#include "core/base/error.h"

namespace xrun {

namespace {

constexpr int64_t kMostTokens = std::numeric_limits<int32_t>::max();
constexpr int64_t kMostSlices = int64_t{1} << 24;  // a chain of 5,800 nodes

// Returns half-open ranges of tokens in the order of the nodes; a node may be empty.
std::vector<TokenRange> node_ranges(std::span<const int64_t> lengths) {
  std::vector<TokenRange> ranges;
  int64_t begin = 0;
  for (size_t n = 0; n < lengths.size(); ++n) {
    XRUN_CHECK(lengths[n] >= 0, "tree_slices: node_lengths[{}] is {}, wanted at least 0", n,
               lengths[n]);
    XRUN_CHECK(lengths[n] <= kMostTokens - begin,
               "tree_slices: node_lengths[{}] is {}, after {} tokens; the maximum is 2^31 - 1", n,
               lengths[n], begin);
    ranges.push_back({begin, begin + lengths[n]});
    begin += lengths[n];
  }
  return ranges;
}

// Nodes with one parent each form a forest: a path with a cycle would reach a node twice, from
// different nodes.
void check_paths(std::span<const std::vector<int64_t>> paths, size_t nodes) {
  constexpr int64_t kUnseen = -2;
  std::vector<int64_t> parent(nodes, kUnseen);
  int64_t slices = 0;
  for (size_t s = 0; s < paths.size(); ++s) {
    XRUN_CHECK(!paths[s].empty(), "tree_slices: sample_paths[{}] has no nodes", s);
    int64_t above = -1;
    for (size_t i = 0; i < paths[s].size(); ++i) {
      const int64_t node = paths[s][i];
      XRUN_CHECK(node >= 0 && node < static_cast<int64_t>(nodes),
                 "tree_slices: sample_paths[{}][{}] is {}, node_lengths has {} entries", s, i, node,
                 nodes);
      int64_t& known = parent[static_cast<size_t>(node)];
      // The first visit of a node fixes its parent and gives one slice for the node and for each
      // node above it.
      if (known == kUnseen) {
        known = above;
        slices += static_cast<int64_t>(i) + 1;
      }
      XRUN_CHECK(known == above,
                 "tree_slices: sample_paths[{}][{}] is node {}, here {} but earlier {}; a node has "
                 "one parent",
                 s, i, node, above < 0 ? "a root" : fmt::format("below node {}", above),
                 known < 0 ? "a root" : fmt::format("below node {}", known));
      above = node;
    }
  }
  XRUN_CHECK(slices <= kMostSlices, "tree_slices: {} slices, the maximum is {}", slices,
             kMostSlices);
}

}  // namespace

FoldedRollouts fold_shared_prefix(const RolloutGroup& group, int64_t ignore_idx) {
  XRUN_CHECK(!group.completions.empty(),
             "completions must be non-empty (need at least one rollout).");
  const int64_t prompt = std::ssize(group.prompt_ids);
  int64_t tokens = prompt;
  for (const std::vector<int64_t>& completion : group.completions) {
    XRUN_CHECK(!completion.empty(), "every completion must be non-empty.");
    tokens += std::ssize(completion);
  }
  XRUN_CHECK(tokens <= kMostTokens, "fold_shared_prefix: {} tokens, the maximum is 2^31 - 1",
             tokens);
  FoldedRollouts folded;
  folded.input_ids = group.prompt_ids;
  folded.labels.assign(group.prompt_ids.size(), ignore_idx);
  folded.position_ids.resize(group.prompt_ids.size());
  std::iota(folded.position_ids.begin(), folded.position_ids.end(), 0);
  // Node 0 is the prompt, even if it is empty.
  folded.node_lengths = {prompt};
  for (const std::vector<int64_t>& completion : group.completions) {
    const int64_t node = std::ssize(folded.node_lengths);
    folded.input_ids.insert(folded.input_ids.end(), completion.begin(), completion.end());
    // The label of a token is the next token. A completion's first token is not a label, since
    // the prompt's last token has a successor in each completion.
    folded.labels.insert(folded.labels.end(), completion.begin() + 1, completion.end());
    folded.labels.push_back(ignore_idx);
    // Completions are alternatives, so all continue at the same position.
    for (int64_t t = 0; t < std::ssize(completion); ++t) folded.position_ids.push_back(prompt + t);
    folded.node_lengths.push_back(std::ssize(completion));
    folded.sample_paths.push_back(prompt > 0 ? std::vector<int64_t>{0, node}
                                             : std::vector<int64_t>{node});
  }
  return folded;
}

FoldedRollouts collate_groups(std::span<const RolloutGroup> groups, int64_t ignore_idx) {
  XRUN_CHECK(groups.size() == 1,
             "prefix_tree_collate_fn supports local_batch_size=1 only, got {} groups.",
             groups.size());
  return fold_shared_prefix(groups[0], ignore_idx);
}

// A slice is (queries, keys, full or causal); together they are the tree's attention mask.
TreeSlices tree_slices(std::span<const int64_t> node_lengths,
                       std::span<const std::vector<int64_t>> sample_paths) {
  const std::vector<TokenRange> ranges = node_ranges(node_lengths);
  check_paths(sample_paths, ranges.size());
  TreeSlices slices;
  std::set<std::tuple<TokenRange, TokenRange, bool>> empty;
  const auto add = [&](const TokenRange& q, const TokenRange& k, bool full) {
    const bool may_repeat = q[0] == q[1] || k[0] == k[1];
    // Two empty nodes may have the same range; a repeated slice would be attended twice.
    if (may_repeat && !empty.emplace(q, k, full).second) return;
    slices.q_ranges.push_back(q);
    slices.k_ranges.push_back(k);
    slices.types.emplace_back(full ? "full" : "causal");
  };
  std::vector<bool> seen(ranges.size(), false);
  for (const std::vector<int64_t>& path : sample_paths) {
    std::vector<TokenRange>& on_path = slices.sample_token_ranges.emplace_back();
    for (const int64_t node : path) {
      const TokenRange& range = ranges[static_cast<size_t>(node)];
      if (!seen[static_cast<size_t>(node)]) {
        // A token attends causally within its node and to all tokens of the nodes above it.
        add(range, range, false);
        for (const TokenRange& above : on_path) add(range, above, true);
        seen[static_cast<size_t>(node)] = true;
      }
      on_path.push_back(range);
    }
  }
  return slices;
}

}  // namespace xrun

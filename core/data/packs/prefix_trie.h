#pragma once
// The shared prefixes of token lists as a tree. fold_pack computes each of its nodes once, and a
// plan of packs counts their tokens.

#include <cstdint>
#include <span>
#include <vector>

namespace xrun {

using TokenList = std::span<const int32_t>;

// Returns the number of tokens that both lists have in common from their start.
int64_t common_prefix(TokenList a, TokenList b);

// Lists sorted by key, then by tokens, then by index.
struct SortedLists {
  std::vector<int32_t> order;   // [S] indices of lists
  std::vector<int32_t> shared;  // [S] common prefix with the list before; 0 where the key changes
};

// Sorts lists. Lists of different keys share nothing; without keys all are equal. Throws Error if
// the number of keys is neither 0 nor the number of lists, or if the lists have 2^31 tokens or more
// in total.
SortedLists sort_lists(std::span<const TokenList> lists, std::span<const int64_t> keys = {});

// A node is a run of tokens that the same lists share. Nodes are in preorder; roots and the
// children of a node are ordered by their first list.
struct PrefixTrie {
  std::vector<int32_t> parent;  // [N] -1: a root
  std::vector<int32_t> end;     // [N] depth at which the node ends, in tokens from the root; it
                                // begins where its parent ends, and no node is empty
  std::vector<int32_t> first;   // [N] lowest index of a list through the node
  std::vector<int32_t> lists;   // [N] number of lists through the node
  std::vector<int32_t> leaf;    // [S] node in which a list ends; -1 for an empty list

  int32_t begin(size_t node) const {
    return parent[node] < 0 ? 0 : end[static_cast<size_t>(parent[node])];
  }
  int64_t tokens() const;  // of all nodes
};

// Returns the trie with the fewest tokens in which every node that several lists share has at least
// min_run tokens; of several such tries, the one that shares nearer to the root. min_run = 1 shares
// everything; without a common prefix of min_run tokens every list is a root.
//   lengths  [S] number of tokens of each list
// Time and memory are O(S), plus one word for each pair of a shared node and a node above it; there
// are at most as many of these as tokens. Throws Error if min_run is below 1.
PrefixTrie prefix_trie(std::span<const int64_t> lengths, const SortedLists& sorted,
                       int64_t min_run);

}  // namespace xrun

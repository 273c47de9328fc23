// In lexicographic order lists that share a prefix are neighbours, so the common prefixes of
// neighbours suffice for the compressed trie (with one stack, as for the LCP intervals of a suffix
// array). A dynamic program then drops shared nodes so that every shared run has min_run tokens.

#include "core/data/packs/prefix_trie.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

#include "core/base/error.h"

namespace xrun {

namespace {

constexpr int32_t kRoot = 0;  // a node of depth 0 above all roots

// A node of the trie before short runs are dropped. Node 0 is kRoot.
struct RawNode {
  int32_t parent = kRoot;
  int32_t depth = 0;  // where the node ends
  int32_t first = std::numeric_limits<int32_t>::max();
  int32_t lists = 0;

  // The tree of the nodes that are used.
  bool used = false;
  int32_t up = kRoot;  // nearest used node above
  int32_t child = -1, sibling = -1;
};

class TrieBuilder {
 public:
  TrieBuilder(std::span<const int64_t> lengths, const SortedLists& sorted) : lengths_(lengths) {
    nodes_.reserve(2 * lengths.size() + 1);
    nodes_.emplace_back();
    leaf_.assign(lengths.size(), kRoot);
    for (size_t i = 0; i < sorted.order.size(); ++i) add(sorted.order[i], sorted.shared[i]);
    close_below(0);
  }

  void drop_short_runs(int64_t min_run) {
    count_bases(min_run);
    for (const int32_t v : closed_) {
      if (is_candidate(v)) choose(v, min_run);
    }
    // Parents are closed after their children.
    for (auto v = closed_.rbegin(); v != closed_.rend(); ++v) settle(*v);
    for (size_t s = 0; s < leaf_.size(); ++s) end_alone(s);
  }

  // Numbers nodes so that a subtree is a range and a parent comes before its children.
  PrefixTrie in_preorder() {
    link_children();
    PrefixTrie trie;
    std::vector<int32_t> number(nodes_.size(), -1);
    std::vector<int32_t> open;
    if (node(kRoot).child >= 0) open.push_back(node(kRoot).child);
    while (!open.empty()) {
      const int32_t v = open.back();
      open.pop_back();
      const RawNode& at = node(v);
      number[static_cast<size_t>(v)] = static_cast<int32_t>(trie.parent.size());
      trie.parent.push_back(number[static_cast<size_t>(at.up)]);
      trie.end.push_back(at.depth);
      trie.first.push_back(at.first);
      trie.lists.push_back(at.lists);
      // The child is pushed last, so its subtree comes before the sibling.
      if (at.sibling >= 0) open.push_back(at.sibling);
      if (at.child >= 0) open.push_back(at.child);
    }
    for (const int32_t v : leaf_) trie.leaf.push_back(number[static_cast<size_t>(v)]);
    return trie;
  }

 private:
  RawNode& node(int32_t v) { return nodes_[static_cast<size_t>(v)]; }

  int32_t make_node(int32_t parent, int32_t depth) {
    nodes_.emplace_back();
    nodes_.back().parent = parent;
    nodes_.back().depth = depth;
    return static_cast<int32_t>(nodes_.size()) - 1;
  }

  // Adds the next list, which shares `shared` tokens with the one before.
  void add(int32_t list, int32_t shared) {
    close_below(shared);
    const int32_t length = static_cast<int32_t>(lengths_[static_cast<size_t>(list)]);
    // Otherwise the list equals the one before it, and ends in the same node.
    if (length > shared) path_.push_back(make_node(path_.back(), length));
    leaf_[static_cast<size_t>(list)] = path_.back();
    RawNode& last = node(path_.back());
    last.first = std::min(last.first, list);
    ++last.lists;
  }

  // Closes the nodes of the path that end beyond `depth`, so that the path ends there.
  void close_below(int32_t depth) {
    while (node(path_.back()).depth > depth) {
      const int32_t v = path_.back();
      path_.pop_back();
      // The new list branches off inside this node's run: the run is split there.
      if (node(path_.back()).depth < depth) path_.push_back(make_node(path_.back(), depth));
      node(v).parent = path_.back();
      RawNode& above = node(path_.back());
      above.first = std::min(above.first, node(v).first);
      above.lists += node(v).lists;
      closed_.push_back(v);
    }
  }

  // The dynamic program. A shared node may be used if its run, which begins at the nearest used
  // node above (its base), has min_run tokens. The possible bases of a node v are depth 0 and the
  // candidates above it. saved_[first_entry_[v] + j] is the number of tokens that the subtree of v
  // saves with base j if v is dropped; saved_[first_entry_[v] + base_count_[v]] is the number that
  // it saves below v if v is used.
  bool is_candidate(int32_t v) { return base_count_[static_cast<size_t>(v)] > 0; }

  void count_bases(int64_t min_run) {
    base_count_.assign(nodes_.size(), 0);
    first_entry_.assign(nodes_.size(), 0);
    size_t entries = 0;
    for (auto v = closed_.rbegin(); v != closed_.rend(); ++v) {
      const RawNode& at = node(*v);
      if (at.lists < 2 || at.depth < min_run) continue;
      const size_t index = static_cast<size_t>(*v);
      base_count_[index] = base_count_[static_cast<size_t>(at.parent)] + 1;
      first_entry_[index] = entries;
      entries += static_cast<size_t>(base_count_[index]) + 1;
    }
    saved_.assign(entries, 0);
    use_.assign(entries, 0);
  }

  void choose(int32_t v, int64_t min_run) {
    const size_t entry = first_entry_[static_cast<size_t>(v)];
    const size_t bases = static_cast<size_t>(base_count_[static_cast<size_t>(v)]);
    const int64_t below = saved_[entry + bases];
    const int32_t parent = node(v).parent;
    int32_t base = parent;
    // Goes from the nearest base, the parent, up to depth 0.
    for (size_t j = bases; j-- > 0;) {
      const int64_t run = node(v).depth - (j == 0 ? 0 : node(base).depth);
      int64_t best = saved_[entry + j];
      // All lists through v but one are spared its run.
      const int64_t used = (node(v).lists - 1) * run + below;
      // On a tie the node is used: it is nearer to the root than the nodes below it.
      if (run >= min_run && used >= best) {
        best = used;
        use_[entry + j] = 1;
      }
      if (is_candidate(parent)) saved_[first_entry_[static_cast<size_t>(parent)] + j] += best;
      base = node(base).parent;
    }
  }

  // Decides whether v is used; its parent is settled.
  void settle(int32_t v) {
    RawNode& at = node(v);
    const RawNode& parent = node(at.parent);
    at.up = parent.used ? at.parent : parent.up;
    if (!is_candidate(v)) {
      at.used = at.lists == 1;
      return;
    }
    // Candidates above v are numbered from 1 on; a used one is a base.
    const int32_t base = is_candidate(at.up) ? base_count_[static_cast<size_t>(at.up)] : 0;
    at.used = use_[first_entry_[static_cast<size_t>(v)] + static_cast<size_t>(base)] != 0;
  }

  // A list that ends in a dropped node gets a separate leaf.
  void end_alone(size_t list) {
    const int32_t v = leaf_[list];
    if (v == kRoot || node(v).used) return;
    const int32_t leaf = make_node(node(v).up, node(v).depth);
    node(leaf).up = node(v).up;
    node(leaf).used = true;
    node(leaf).first = static_cast<int32_t>(list);
    node(leaf).lists = 1;
    leaf_[list] = leaf;
  }

  // The nodes whose first list is s are a chain that ends at the leaf of s. Lists are visited in
  // falling order, so children end up in the order of their first lists.
  void link_children() {
    for (size_t s = leaf_.size(); s-- > 0;) {
      int32_t v = leaf_[s];
      while (v != kRoot && node(v).first == static_cast<int32_t>(s)) {
        RawNode& up = node(node(v).up);
        node(v).sibling = up.child;
        up.child = v;
        v = node(v).up;
      }
    }
  }

  std::span<const int64_t> lengths_;
  std::vector<RawNode> nodes_;
  std::vector<int32_t> leaf_;            // [S]
  std::vector<int32_t> path_ = {kRoot};  // from the root to the last list's leaf
  std::vector<int32_t> closed_;          // nodes, children before parents
  std::vector<int32_t> base_count_;      // by node; 0: it cannot be shared
  std::vector<size_t> first_entry_;
  std::vector<int64_t> saved_;
  std::vector<uint8_t> use_;  // 1: with this base the node is used
};

}  // namespace

int64_t common_prefix(TokenList a, TokenList b) {
  const size_t n = std::min(a.size(), b.size());
  size_t i = 0;
  for (; i + 2 <= n; i += 2) {  // two tokens per comparison
    uint64_t two_a = 0, two_b = 0;
    std::memcpy(&two_a, a.data() + i, sizeof two_a);
    std::memcpy(&two_b, b.data() + i, sizeof two_b);
    if (two_a != two_b) break;
  }
  while (i < n && a[i] == b[i]) ++i;
  return static_cast<int64_t>(i);
}

SortedLists sort_lists(std::span<const TokenList> lists, std::span<const int64_t> keys) {
  XRUN_CHECK(keys.empty() || keys.size() == lists.size(),
             "folding: frequency_classes has {} entries for {} segments", keys.size(),
             lists.size());
  constexpr size_t kMost = std::numeric_limits<int32_t>::max();
  size_t tokens = 0;
  for (const TokenList list : lists) {
    tokens += list.size();
    XRUN_CHECK(tokens <= kMost, "folding: {} tokens, the maximum is 2^31 - 1", tokens);
  }
  XRUN_CHECK(lists.size() <= kMost / 4, "folding: {} segments, the maximum is {}", lists.size(),
             kMost / 4);
  SortedLists sorted;
  sorted.order.resize(lists.size());
  std::iota(sorted.order.begin(), sorted.order.end(), 0);
  // The index decides ties, so that the order is the same on every machine.
  std::sort(sorted.order.begin(), sorted.order.end(), [&](int32_t x, int32_t y) {
    const size_t i = static_cast<size_t>(x), j = static_cast<size_t>(y);
    if (!keys.empty() && keys[i] != keys[j]) return keys[i] < keys[j];
    const size_t at = static_cast<size_t>(common_prefix(lists[i], lists[j]));
    if (at < lists[i].size() && at < lists[j].size()) return lists[i][at] < lists[j][at];
    return lists[i].size() != lists[j].size() ? lists[i].size() < lists[j].size() : x < y;
  });
  sorted.shared.assign(lists.size(), 0);
  for (size_t n = 1; n < lists.size(); ++n) {
    const size_t i = static_cast<size_t>(sorted.order[n - 1]);
    const size_t j = static_cast<size_t>(sorted.order[n]);
    if (!keys.empty() && keys[i] != keys[j]) continue;
    sorted.shared[n] = static_cast<int32_t>(common_prefix(lists[i], lists[j]));
  }
  return sorted;
}

int64_t PrefixTrie::tokens() const {
  int64_t sum = 0;
  for (size_t n = 0; n < end.size(); ++n) sum += end[n] - begin(n);
  return sum;
}

PrefixTrie prefix_trie(std::span<const int64_t> lengths, const SortedLists& sorted,
                       int64_t min_run) {
  XRUN_CHECK(min_run >= 1, "folding: min_run is {}, wanted at least 1", min_run);
  TrieBuilder builder(lengths, sorted);
  builder.drop_short_runs(min_run);
  return builder.in_preorder();
}

}  // namespace xrun

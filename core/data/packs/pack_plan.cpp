// All segments of the step are sorted once. The trie of any subset of units then follows from the
// common prefixes of neighbours: what two segments share is the shortest of those between them.

#include "core/data/packs/pack_plan.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "core/base/error.h"
#include "core/data/packs/pack.h"

namespace xrun {

namespace {

using Items = std::vector<std::vector<int64_t>>;  // lists of units

// The computed tokens of any set of units, without sorting their segments again.
class FoldedSizes {
 public:
  FoldedSizes(std::span<const UnitTokens> units, const PackLimits& limits)
      : limits_(limits), positions_(units.size()) {
    std::vector<TokenList> lists;
    std::vector<int64_t> keys;
    for (size_t u = 0; u < units.size(); ++u) {
      for (const TokenList list : units[u]) {
        lists.push_back(list);
        lengths_.push_back(std::ssize(list));
        unit_of_.push_back(u);
        if (limits.frequency_class) keys.push_back(limits.frequency_class(lengths_.back()));
      }
    }
    // [S] segments by frequency class, then by tokens.
    sorted_ = sort_lists(lists, keys);
    for (size_t n = 0; n < sorted_.order.size(); ++n) {
      positions_[unit_of_[static_cast<size_t>(sorted_.order[n])]].push_back(
          static_cast<int32_t>(n));
    }
  }

  // O(n log n) for n segments, plus the distance between their positions in the sorted order.
  int64_t tokens(std::span<const int64_t> units) const {
    std::vector<int32_t> positions;
    for (const int64_t unit : units) {
      const std::vector<int32_t>& own = positions_[static_cast<size_t>(unit)];
      positions.insert(positions.end(), own.begin(), own.end());
    }
    // Sorting positions sorts the lists, so no tokens are compared again.
    std::sort(positions.begin(), positions.end());
    SortedLists sorted;
    std::vector<int64_t> lengths;
    for (size_t i = 0; i < positions.size(); ++i) {
      const size_t list = static_cast<size_t>(sorted_.order[static_cast<size_t>(positions[i])]);
      lengths.push_back(lengths_[list]);
      sorted.order.push_back(static_cast<int32_t>(i));
      sorted.shared.push_back(i == 0 ? 0 : shared(positions[i - 1], positions[i]));
    }
    return prefix_trie(lengths, sorted, limits_.min_run).tokens();
  }

  // Returns the clusters of units that share a prefix in the trie of the whole step, each in the
  // order of tokens.
  Items clusters() const {
    // Two units belong together if their segments have a root node in common.
    const PrefixTrie trie = prefix_trie(lengths_, sorted_, limits_.min_run);
    std::vector<int32_t> root(trie.parent.size());
    for (size_t n = 0; n < root.size(); ++n) {
      root[n] =
          trie.parent[n] < 0 ? static_cast<int32_t>(n) : root[static_cast<size_t>(trie.parent[n])];
    }
    // Union-find; a cluster is represented by its lowest unit.
    std::vector<size_t> joined(positions_.size());
    std::iota(joined.begin(), joined.end(), size_t{0});
    const auto find = [&](size_t unit) {
      // Path halving.
      while (joined[unit] != unit) unit = joined[unit] = joined[joined[unit]];
      return unit;
    };
    std::vector<int64_t> unit_at(root.size(), -1);
    for (size_t list = 0; list < trie.leaf.size(); ++list) {
      if (trie.leaf[list] < 0) continue;
      int64_t& seen = unit_at[static_cast<size_t>(root[static_cast<size_t>(trie.leaf[list])])];
      if (seen < 0) seen = static_cast<int64_t>(unit_of_[list]);
      const size_t a = find(static_cast<size_t>(seen)), b = find(unit_of_[list]);
      joined[std::max(a, b)] = std::min(a, b);
    }
    std::vector<std::vector<int64_t>> members(positions_.size());
    for (size_t u = 0; u < positions_.size(); ++u) {
      members[find(u)].push_back(static_cast<int64_t>(u));
    }
    Items found;
    for (std::vector<int64_t>& units : members) {
      if (units.empty()) continue;
      // Neighbours in this order share most, which `divide` relies on.
      std::stable_sort(units.begin(), units.end(),
                       [&](int64_t a, int64_t b) { return rank(a) < rank(b); });
      found.push_back(std::move(units));
    }
    return found;
  }

  // Returns the number of tokens that the first segments of two units share, for neighbours in a
  // cluster.
  int32_t link(int64_t a, int64_t b) const {
    if (positions_[static_cast<size_t>(b)].empty()) return 0;
    return shared(rank(a), rank(b));
  }

 private:
  // A unit without segments sorts last.
  int32_t rank(int64_t unit) const {
    const std::vector<int32_t>& own = positions_[static_cast<size_t>(unit)];
    return own.empty() ? static_cast<int32_t>(sorted_.order.size()) : own.front();
  }

  // Returns the common prefix of two positions, from <= to; 0 if it is too short to be shared.
  // Linear in the distance, but stops at the first prefix that is too short.
  int32_t shared(int32_t from, int32_t to) const {
    int32_t least = std::numeric_limits<int32_t>::max();
    for (int32_t n = from + 1; n <= to; ++n) {
      least = std::min(least, sorted_.shared[static_cast<size_t>(n)]);
      if (least < limits_.min_run) return 0;
    }
    return least;
  }

  const PackLimits& limits_;
  std::vector<int64_t> lengths_;                 // of all segments
  std::vector<size_t> unit_of_;                  // of a segment
  std::vector<std::vector<int32_t>> positions_;  // of a unit's segments in sorted_, ascending
  SortedLists sorted_;
};

// Cuts a cluster into pieces that fit, and appends them. A piece takes as many units as fit and is
// then cut back to its weakest link, so that neighbours that share much stay together.
void divide(const FoldedSizes& sizes, std::span<const int64_t> units, int64_t capacity,
            Items& pieces) {
  while (!units.empty()) {
    // One unit fits: plan_folded_packs has checked each alone.
    size_t fits = 1, over = 2;
    // Doubling, then bisection: the cost is the length of the piece, not of the cluster, times a
    // logarithm.
    while (over <= units.size() && sizes.tokens(units.first(over)) <= capacity) {
      fits = over;
      over *= 2;
    }
    over = std::min(over, units.size() + 1);
    // Invariant: `fits` units fit; `over` units do not fit, or there are fewer of them.
    while (over - fits > 1) {
      const size_t middle = (fits + over) / 2;
      (sizes.tokens(units.first(middle)) <= capacity ? fits : over) = middle;
    }
    size_t cut = fits;
    if (fits < units.size()) {
      int32_t weakest = sizes.link(units[fits - 1], units[fits]);
      // Of equally weak links the last one is taken, so that the piece stays large.
      for (size_t n = fits - 1; n > 0; --n) {
        const int32_t link = sizes.link(units[n - 1], units[n]);
        if (link >= weakest) continue;
        weakest = link;
        cut = n;
      }
    }
    pieces.emplace_back(units.begin(), units.begin() + static_cast<int64_t>(cut));
    units = units.subspan(cut);
  }
}

struct PackedItems {
  Items packs;
  int64_t tokens = 0;  // of all packs
};

// Returns packs of items, each of which fits alone.
PackedItems packs_of(const FoldedSizes& sizes, Items items, int64_t capacity) {
  // A fixed order, so that the plan depends only on the units.
  for (std::vector<int64_t>& item : items) std::sort(item.begin(), item.end());
  std::sort(items.begin(), items.end());
  std::vector<int64_t> item_tokens;
  for (const std::vector<int64_t>& item : items) item_tokens.push_back(sizes.tokens(item));
  PackedItems plan;
  const auto join = [&](std::span<const int64_t> chosen) {
    std::vector<int64_t> units;
    for (const int64_t index : chosen) {
      const std::vector<int64_t>& item = items[static_cast<size_t>(index)];
      units.insert(units.end(), item.begin(), item.end());
    }
    std::sort(units.begin(), units.end());
    return units;
  };
  for (const std::vector<int64_t>& chosen : best_fit_decreasing(item_tokens, capacity)) {
    // Pieces of one cluster may compute a few more tokens together than apart, if one splits a
    // shared run of another into runs that are too short. Such a pack is divided.
    for (std::span<const int64_t> rest = chosen; !rest.empty();) {
      size_t count = rest.size();
      std::vector<int64_t> units = join(rest);
      int64_t tokens = sizes.tokens(units);
      // Ends at one item, which fits.
      while (tokens > capacity) {
        units = join(rest.first(--count));
        tokens = sizes.tokens(units);
      }
      plan.tokens += tokens;
      plan.packs.push_back(std::move(units));
      rest = rest.subspan(count);
    }
  }
  std::sort(plan.packs.begin(), plan.packs.end());
  return plan;
}

// Moves packs that begin with the same cluster next to the first of them, since a step computes
// their common prefix once (core/prefix/shared_prefix.h). Only a divided cluster has several.
void join_clusters(const Items& clusters, size_t units, Items& packs) {
  std::vector<size_t> cluster_of(units, 0), first(clusters.size(), packs.size());
  for (size_t c = 0; c < clusters.size(); ++c) {
    for (const int64_t unit : clusters[c]) cluster_of[static_cast<size_t>(unit)] = c;
  }
  std::vector<std::pair<size_t, std::vector<int64_t>>> ranked;
  for (size_t p = 0; p < packs.size(); ++p) {
    size_t& rank = first[cluster_of[static_cast<size_t>(packs[p].front())]];
    rank = std::min(rank, p);
    ranked.emplace_back(rank, std::move(packs[p]));
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (size_t p = 0; p < packs.size(); ++p) packs[p] = std::move(ranked[p].second);
}

}  // namespace

// The order of the units makes no difference.
int64_t folded_tokens(std::span<const UnitTokens> units, const PackLimits& limits) {
  std::vector<int64_t> all(units.size());
  std::iota(all.begin(), all.end(), 0);
  return FoldedSizes(units, limits).tokens(all);
}

// Compares two plans: clusters kept together, which compute less, and single units, which may fill
// packs better.
std::vector<std::vector<int64_t>> plan_folded_packs(std::span<const UnitTokens> units,
                                                    const PackLimits& limits) {
  const FoldedSizes sizes(units, limits);
  Items singles;
  for (size_t u = 0; u < units.size(); ++u) {
    singles.push_back({static_cast<int64_t>(u)});
    const int64_t folded = sizes.tokens(singles.back());
    int64_t sum = 0;
    for (const TokenList list : units[u]) sum += std::ssize(list);
    // A unit longer than the limit may fit by folding.
    XRUN_CHECK(folded <= limits.max_tokens,
               "packing: unit {} has {} tokens, {} with shared prefixes once; max_tokens is {}", u,
               sum, folded, limits.max_tokens);
  }
  Items items;
  const Items clusters = sizes.clusters();
  for (const std::vector<int64_t>& cluster : clusters) {
    if (sizes.tokens(cluster) <= limits.max_tokens) {
      items.push_back(cluster);
    } else {
      divide(sizes, cluster, limits.max_tokens, items);
    }
  }
  const bool shares = items.size() < units.size();
  PackedItems together = packs_of(sizes, std::move(items), limits.max_tokens);
  join_clusters(clusters, units.size(), together.packs);
  // Without a shared prefix there is nothing to compare: every item is one unit.
  if (!shares) return together.packs;
  PackedItems apart = packs_of(sizes, std::move(singles), limits.max_tokens);
  // Fewer packs count most, since each is a forward and a backward.
  const auto cost = [](const PackedItems& plan) {
    return std::pair(plan.packs.size(), plan.tokens);
  };
  return cost(apart) < cost(together) ? apart.packs : together.packs;
}

}  // namespace xrun

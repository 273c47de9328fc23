// Longest processing time first (Graham 1969), with a limit on the packs of a rank.

#include "core/data/packs/pack_share.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "core/base/error.h"

namespace xrun {

namespace {

int64_t add_up_to_limit(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<int64_t>::max() : sum;
}

int64_t square_up_to_limit(int64_t a) {
  int64_t square = 0;
  return __builtin_mul_overflow(a, a, &square) ? std::numeric_limits<int64_t>::max() : square;
}

}  // namespace

int64_t pack_cost(PackCost by, std::span<const int64_t> segment_lengths) {
  int64_t cost = 0;
  for (const int64_t length : segment_lengths) {
    XRUN_CHECK(length >= 0, "the cost of a pack: a segment has {} tokens", length);
    cost = add_up_to_limit(cost, by == PackCost::kTokens ? length : square_up_to_limit(length));
  }
  return cost;
}

std::vector<std::vector<int64_t>> share_out(std::span<const int64_t> costs, int64_t ranks) {
  XRUN_CHECK(ranks >= 1, "sharing packs out: {} ranks, wanted at least 1", ranks);
  std::vector<size_t> order(costs.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return costs[a] > costs[b]; });
  const int64_t each = std::ssize(costs) / ranks;
  int64_t one_more = std::ssize(costs) % ranks;  // ranks that may still exceed `each`
  std::vector<std::vector<int64_t>> shares(static_cast<size_t>(ranks));
  std::set<std::pair<int64_t, int64_t>> open;     // (cost so far, rank) below `each`
  std::set<std::pair<int64_t, int64_t>> reached;  // the same with `each` packs
  for (int64_t rank = 0; rank < ranks; ++rank) (each > 0 ? open : reached).emplace(0, rank);
  for (const size_t pack : order) {
    XRUN_CHECK(costs[pack] >= 0, "sharing packs out: pack {} costs {}, wanted at least 0", pack,
               costs[pack]);
    const bool exceed =
        open.empty() || (one_more > 0 && !reached.empty() && *reached.begin() < *open.begin());
    std::set<std::pair<int64_t, int64_t>>& from = exceed ? reached : open;
    const auto [cost, rank] = *from.begin();
    from.erase(from.begin());
    std::vector<int64_t>& share = shares[static_cast<size_t>(rank)];
    share.push_back(static_cast<int64_t>(pack));
    if (exceed) {
      --one_more;
    } else {
      (std::ssize(share) < each ? open : reached).emplace(add_up_to_limit(cost, costs[pack]), rank);
    }
  }
  for (std::vector<int64_t>& share : shares) std::sort(share.begin(), share.end());
  return shares;
}

}  // namespace xrun

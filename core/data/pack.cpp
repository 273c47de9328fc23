#include "core/data/pack.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "core/base/error.h"

namespace xrun {

std::vector<std::vector<int64_t>> best_fit_decreasing(std::span<const int64_t> sizes,
                                                      int64_t capacity) {
  for (size_t i = 0; i < sizes.size(); ++i) {
    XRUN_CHECK(sizes[i] >= 0 && sizes[i] <= capacity,
               "packing: item {} has size {}, the capacity is {}", i, sizes[i], capacity);
  }
  std::vector<int64_t> order(sizes.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  const auto size_of = [&](int64_t item) { return sizes[static_cast<size_t>(item)]; };
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return size_of(a) > size_of(b); });
  std::vector<std::vector<int64_t>> packs;
  std::set<std::pair<int64_t, size_t>> room;  // (room left, pack)
  for (int64_t item : order) {
    const auto best = room.lower_bound({size_of(item), 0});
    size_t pack = packs.size();
    int64_t left = capacity;
    if (best == room.end()) {
      packs.emplace_back();
    } else {
      std::tie(left, pack) = *best;
      room.erase(best);
    }
    packs[pack].push_back(item);
    room.emplace(left - size_of(item), pack);
  }
  for (std::vector<int64_t>& pack : packs) std::sort(pack.begin(), pack.end());
  std::sort(packs.begin(), packs.end());
  return packs;
}

}  // namespace xrun

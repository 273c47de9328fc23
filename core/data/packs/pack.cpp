// Items are sorted by counting. Open packs are indexed by their remaining room. A tree of bits, one
// for each room that some pack has, finds the smallest sufficient room; each room has a heap of its
// packs by number, linked through the packs themselves.

#include "core/data/packs/pack.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <set>
#include <utility>

#include "core/base/error.h"

namespace xrun {

namespace {

// A set of numbers below a limit that finds the next member.
class BitTree {
 public:
  // A word of 64 bits has one bit per word of the level below: log64(limit) levels.
  explicit BitTree(size_t limit) {
    do {
      limit = limit / 64 + 1;
      levels_.emplace_back(limit, 0);
    } while (limit > 1);
  }
  void insert(size_t value) {
    for (std::vector<uint64_t>& level : levels_) {
      level[value / 64] |= uint64_t{1} << value % 64;
      value /= 64;
    }
  }
  void erase(size_t value) {
    for (std::vector<uint64_t>& level : levels_) {
      level[value / 64] &= ~(uint64_t{1} << value % 64);
      // Upper levels keep their bit while any number below is left.
      if (level[value / 64] != 0) return;
      value /= 64;
    }
  }
  // Returns the smallest member >= value, or -1.
  int64_t next(size_t value) const {
    for (size_t k = 0; k < levels_.size(); ++k) {
      if (value / 64 >= levels_[k].size()) return -1;
      // Clears the bits below `value`.
      const uint64_t word = levels_[k][value / 64] >> value % 64 << value % 64;
      if (word == 0) {
        value = value / 64 + 1;
        continue;
      }
      value = value / 64 * 64 + static_cast<size_t>(std::countr_zero(word));
      while (k-- > 0) {
        // Goes down again along the lowest bit of each level.
        value = value * 64 + static_cast<size_t>(std::countr_zero(levels_[k][value]));
      }
      return static_cast<int64_t>(value);
    }
    return -1;
  }

 private:
  std::vector<std::vector<uint64_t>> levels_;  // bit i of level k: a member v has v / 64^k = i
};

// The open packs by remaining room, for few possible rooms: O(capacity) memory.
class RoomTable {
 public:
  RoomTable(int64_t capacity, size_t packs)
      : first_(static_cast<size_t>(capacity) + 1, -1),
        child_(packs, -1),
        sibling_(packs, -1),
        rooms_(static_cast<size_t>(capacity) + 1) {}

  // Removes the pack with the least room >= size, of equal ones that of the lowest number, and
  // returns it with its room; (-1, 0) if there is none.
  std::pair<int64_t, int64_t> take(int64_t size) {
    const int64_t room = rooms_.next(static_cast<size_t>(size));
    if (room < 0) return {-1, 0};
    int32_t& top = first_[static_cast<size_t>(room)];
    const int32_t pack = top;
    // A pairing heap per room: the lowest pack number is on top.
    top = merge_children(pack);
    if (top < 0) rooms_.erase(static_cast<size_t>(room));
    return {pack, room};
  }
  void put(int64_t pack, int64_t room) {
    int32_t& top = first_[static_cast<size_t>(room)];
    if (top < 0) rooms_.insert(static_cast<size_t>(room));
    child_[static_cast<size_t>(pack)] = sibling_[static_cast<size_t>(pack)] = -1;
    top = merge(top, static_cast<int32_t>(pack));
  }

 private:
  // A pairing heap: the lower number becomes the other's parent.
  int32_t merge(int32_t a, int32_t b) {
    if (a < 0 || b < 0) return std::max(a, b);
    // The lowest number is on top: both structures must choose the same pack.
    if (a > b) std::swap(a, b);
    sibling_[static_cast<size_t>(b)] = child_[static_cast<size_t>(a)];
    child_[static_cast<size_t>(a)] = b;
    return a;
  }
  int32_t merge_children(int32_t pack) {
    // Takes two passes, since merging children one by one would cost O(n) for each removal.
    int32_t pairs = -1;  // merged two by two, linked backwards
    for (int32_t at = child_[static_cast<size_t>(pack)]; at >= 0;) {
      const int32_t other = std::exchange(sibling_[static_cast<size_t>(at)], -1);
      const int32_t rest = other < 0 ? -1 : std::exchange(sibling_[static_cast<size_t>(other)], -1);
      const int32_t pair = merge(at, other);
      sibling_[static_cast<size_t>(pair)] = pairs;
      pairs = pair;
      at = rest;
    }
    int32_t top = -1;
    while (pairs >= 0) {
      const int32_t pair = pairs;
      pairs = std::exchange(sibling_[static_cast<size_t>(pair)], -1);
      top = merge(top, pair);
    }
    return top;
  }

  std::vector<int32_t> first_;            // by room: its lowest pack, or -1
  std::vector<int32_t> child_, sibling_;  // by pack
  BitTree rooms_;
};

// The same for a capacity much larger than the number of items: O(packs) memory.
class RoomSet {
 public:
  std::pair<int64_t, int64_t> take(int64_t size) {
    const auto best = rooms_.lower_bound({size, 0});
    if (best == rooms_.end()) return {-1, 0};
    const auto [room, pack] = *best;
    rooms_.erase(best);
    return {pack, room};
  }
  void put(int64_t pack, int64_t room) { rooms_.emplace(room, pack); }

 private:
  std::set<std::pair<int64_t, int64_t>> rooms_;
};

// Returns item indices, larger sizes first, equal ones in order.
std::vector<int32_t> by_falling_size(std::span<const int64_t> sizes, int64_t largest) {
  std::vector<int32_t> order(sizes.size());
  // Sorts by comparing if a table of counts would be larger than the items.
  if (largest > 64 * static_cast<int64_t>(sizes.size()) + 4096) {
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      return sizes[static_cast<size_t>(a)] > sizes[static_cast<size_t>(b)];
    });
    return order;
  }
  // Counting sort, largest first, stable.
  std::vector<int32_t> index(static_cast<size_t>(largest) + 2, 0);
  for (const int64_t size : sizes) ++index[static_cast<size_t>(largest - size) + 1];
  std::partial_sum(index.begin(), index.end(), index.begin());
  for (size_t i = 0; i < sizes.size(); ++i) {
    order[static_cast<size_t>(index[static_cast<size_t>(largest - sizes[i])]++)] =
        static_cast<int32_t>(i);
  }
  return order;
}

// Fills pack_of with the pack of each item, numbered as they are opened; returns the number of
// packs.
template <class Rooms>
size_t place_items(std::span<const int64_t> sizes, std::span<const int32_t> order, int64_t capacity,
                   Rooms rooms, std::vector<int32_t>& pack_of) {
  size_t packs = 0;
  for (const int32_t item : order) {
    const int64_t size = sizes[static_cast<size_t>(item)];
    auto [pack, room] = rooms.take(size);
    if (pack < 0) {
      pack = static_cast<int64_t>(packs++);
      room = capacity;
    }
    rooms.put(pack, room - size);
    pack_of[static_cast<size_t>(item)] = static_cast<int32_t>(pack);
  }
  return packs;
}

// Lists the items of each pack, packs by their first item.
std::vector<std::vector<int64_t>> list_packs(std::span<const int32_t> pack_of, size_t packs) {
  std::vector<size_t> count(packs, 0);
  for (const int32_t pack : pack_of) ++count[static_cast<size_t>(pack)];
  std::vector<int32_t> number(packs, -1);
  std::vector<std::vector<int64_t>> lists;
  lists.reserve(packs);
  // Packs are numbered by their first item, so that the order of the input is kept.
  for (size_t i = 0; i < pack_of.size(); ++i) {
    const size_t pack = static_cast<size_t>(pack_of[i]);
    if (number[pack] < 0) {
      number[pack] = static_cast<int32_t>(lists.size());
      lists.emplace_back().reserve(count[pack]);
    }
    lists[static_cast<size_t>(number[pack])].push_back(static_cast<int64_t>(i));
  }
  return lists;
}

}  // namespace

// Item i goes to the open pack with the least room that holds it, larger items first.
std::vector<std::vector<int64_t>> best_fit_decreasing(std::span<const int64_t> sizes,
                                                      int64_t capacity) {
  XRUN_CHECK(sizes.size() < (size_t{1} << 31), "packing: {} items, the maximum is 2^31 - 1",
             sizes.size());
  int64_t largest = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    // Callers check first, since only they can name the row of an item above the capacity.
    XRUN_CHECK(sizes[i] >= 0 && sizes[i] <= capacity,
               "packing: item {} has size {}, the capacity is {}", i, sizes[i], capacity);
    largest = std::max(largest, sizes[i]);
  }
  const std::vector<int32_t> order = by_falling_size(sizes, largest);
  std::vector<int32_t> pack_of(sizes.size());
  // Both structures choose the same packs; the memory of the table grows with the possible rooms.
  const bool few_rooms = capacity / 64 <= static_cast<int64_t>(sizes.size());
  const size_t packs =
      few_rooms ? place_items(sizes, order, capacity, RoomTable(capacity, sizes.size()), pack_of)
                : place_items(sizes, order, capacity, RoomSet(), pack_of);
  return list_packs(pack_of, packs);
}

}  // namespace xrun

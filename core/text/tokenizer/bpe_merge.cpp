// The table uses linear probing behind a bit filter. The merge loop scans the few symbols of a word
// for the best pair, and keeps the pairs of longer pieces in a heap.

#include "core/text/tokenizer/bpe_merge.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <queue>
#include <utility>

namespace xrun {

MergeTable::MergeTable(size_t expected)
    : size_(std::bit_ceil(std::max<size_t>(16, expected + expected / 2))),
      buffer_(size_ * sizeof(MergeSlot)),
      slots_(buffer_.as<MergeSlot>()),
      bit_buffer_(size_),
      bits_(bit_buffer_.as<uint64_t>()),
      mask_(size_ - 1),
      shift_(64 - std::countr_zero(size_)) {}

void MergeTable::set(int32_t left, int32_t right, Merge merge) {
  // At three quarters full the chains of occupied slots are still short.
  if (count_ >= size_ / 4 * 3) grow();
  const uint64_t key = key_of(left, right);
  // The top bits of the hash choose the slot; linear probing finds the key or a free slot.
  uint64_t at = slot_of(key);
  while (slots_[at].key != key && slots_[at].key != kEmpty) at = (at + 1) & mask_;
  if (slots_[at].key == kEmpty) ++count_;
  slots_[at] = {key, merge};
  const uint64_t bit = bit_of(key);
  bits_[bit / 64] |= uint64_t{1} << (bit % 64);
}

void MergeTable::grow() {
  MergeTable larger(size_);
  for (size_t i = 0; i < size_; ++i) {
    if (slots_[i].key == kEmpty) continue;
    const uint64_t key = slots_[i].key - 1;  // the inverse of key_of
    larger.set(int32_t(key >> 32), int32_t(key & UINT32_MAX), slots_[i].merge);
  }
  *this = std::move(larger);
}

void MergeTable::hash(Hasher& hasher) const {
  // Sorted by rank, since the order of slots depends on the table's size.
  struct RankedMerge {
    uint32_t rank;
    int32_t left, right, id;
  };
  std::vector<RankedMerge> all;
  all.reserve(count_);
  for (size_t i = 0; i < size_; ++i) {
    if (slots_[i].key == kEmpty) continue;
    const uint64_t key = slots_[i].key - 1;
    all.push_back(
        {slots_[i].merge.rank, int32_t(key >> 32), int32_t(key & UINT32_MAX), slots_[i].merge.id});
  }
  std::sort(all.begin(), all.end(),
            [](const RankedMerge& a, const RankedMerge& b) { return a.rank < b.rank; });
  std::vector<int32_t> ids;
  ids.reserve(3 * all.size());
  for (const RankedMerge& merge : all) ids.insert(ids.end(), {merge.left, merge.right, merge.id});
  hasher.field("merges", {reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(int32_t)});
}

namespace {

constexpr size_t kScanLimit = 64;  // symbols; both loops cost the same at about 100

// A pair that could merge when it was queued; its symbols may have changed since.
struct QueuedMerge {
  uint32_t rank;
  uint32_t left;  // index of the left symbol
  int32_t left_id;
  int32_t right_id;
  int32_t id;
  bool operator>(const QueuedMerge& other) const {
    // The lowest rank first, as the merges were learned; then the leftmost pair.
    return rank != other.rank ? rank > other.rank : left > other.left;
  }
};

// Merges symbols in a linked list; one that was merged into its left neighbour has id -1.
class MergeQueue {
 public:
  MergeQueue(const MergeTable& merges, std::vector<ModelToken>& symbols)
      : merges_(merges), symbols_(symbols), previous_(symbols.size()), next_(symbols.size()) {
    for (size_t i = 0; i < symbols.size(); ++i) {
      // The index before symbol 0 wraps around and is never read.
      previous_[i] = uint32_t(i) - 1;
      next_[i] = uint32_t(i) + 1;
    }
    std::vector<QueuedMerge> first;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const Merge merge = merges.find(symbols[i].id, symbols[i + 1].id);
      if (merge.rank == kNoMerge) continue;
      first.push_back({merge.rank, uint32_t(i), symbols[i].id, symbols[i + 1].id, merge.id});
    }
    // One heap from all pairs takes linear time; n pushes would take n log n.
    queue_ = Queue(std::greater<>(), std::move(first));
  }

  void run() {
    while (!queue_.empty()) {
      const QueuedMerge best = queue_.top();
      queue_.pop();
      // Stale entry: one of its symbols has merged since.
      const uint32_t right = next_[best.left];
      if (symbols_[best.left].id != best.left_id || right >= symbols_.size() ||
          symbols_[right].id != best.right_id) {
        continue;
      }
      // The right symbol joins the left one; both neighbours may now merge with the new symbol.
      symbols_[best.left].id = best.id;
      symbols_[best.left].end = symbols_[right].end;
      symbols_[right].id = -1;
      // The list skips the right symbol.
      next_[best.left] = next_[right];
      if (next_[right] < symbols_.size()) previous_[next_[right]] = best.left;
      if (best.left > 0) add(previous_[best.left]);
      add(best.left);
    }
    std::erase_if(symbols_, [](const ModelToken& s) { return s.id < 0; });
  }

 private:
  using Queue = std::priority_queue<QueuedMerge, std::vector<QueuedMerge>, std::greater<>>;

  void add(uint32_t left) {
    const uint32_t right = next_[left];
    if (right >= symbols_.size()) return;
    const int32_t a = symbols_[left].id, b = symbols_[right].id;
    const Merge merge = merges_.find(a, b);
    if (merge.rank != kNoMerge) queue_.push({merge.rank, left, a, b, merge.id});
  }

  const MergeTable& merges_;
  std::vector<ModelToken>& symbols_;
  std::vector<uint32_t> previous_;
  std::vector<uint32_t> next_;
  Queue queue_;
};

// A symbol's neighbours, and the id of its merge with the next one.
struct ScanPair {
  uint32_t previous;
  uint32_t next;
  int32_t merged;
};

// Returns the lowest of n numbers without data-dependent branches.
uint64_t lowest_of(const uint64_t* numbers, size_t n) {
  // Four independent minima, so that the comparisons do not wait for each other.
  uint64_t a = UINT64_MAX, b = UINT64_MAX, c = UINT64_MAX, d = UINT64_MAX;
  size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    a = std::min(a, numbers[i]);
    b = std::min(b, numbers[i + 1]);
    c = std::min(c, numbers[i + 2]);
    d = std::min(d, numbers[i + 3]);
  }
  for (; i < n; ++i) a = std::min(a, numbers[i]);
  return std::min(std::min(a, b), std::min(c, d));
}

}  // namespace

void merge_symbols(const MergeTable& merges, std::vector<ModelToken>& symbols) {
  if (symbols.size() <= kScanLimit) {
    merge_by_scan(merges, symbols);
  } else {
    merge_by_heap(merges, symbols);
  }
}

void merge_by_scan(const MergeTable& merges, std::vector<ModelToken>& symbols) {
  const auto n = uint32_t(symbols.size());
  if (n < 2) return;
  thread_local std::vector<ScanPair> links;  // one per symbol, merged ones included
  thread_local std::vector<uint64_t> order;  // rank of the merge with the next symbol << 32 | index
  links.resize(n);
  order.assign(n, UINT64_MAX);
  // Rank above index: the lowest number is the best rank, and of equal ranks the leftmost pair.
  const auto rank_pair = [&](uint32_t left, uint32_t right) {
    const Merge merge = merges.find(symbols[left].id, symbols[right].id);
    links[left].merged = merge.id;
    order[left] = uint64_t(merge.rank) << 32 | left;
  };
  // The table is far larger than the caches: all lookups of a word are started before the first.
  for (uint32_t i = 0; i + 1 < n; ++i) merges.prefetch(symbols[i].id, symbols[i + 1].id);
  for (uint32_t i = 0; i < n; ++i) {
    // The first one's `previous` wraps around and is never read.
    links[i] = {i - 1, i + 1, -1};
    if (i + 1 < n) rank_pair(i, i + 1);
  }
  while (true) {
    const uint64_t lowest = lowest_of(order.data(), n);
    // Merged symbols and the last one hold UINT64_MAX, whose rank is kNoMerge too.
    if (lowest >> 32 == kNoMerge) break;
    // The low half of the number is the symbol's index.
    const auto left = uint32_t(lowest);
    const uint32_t right = links[left].next, after = links[right].next;
    symbols[left].id = links[left].merged;
    symbols[left].end = symbols[right].end;
    symbols[right].id = -1;
    // Neither is the lowest again until a new pair is ranked.
    order[right] = order[left] = UINT64_MAX;
    links[left].next = after;
    if (after < n) {
      links[after].previous = left;
      rank_pair(left, after);
    }
    if (left > 0) rank_pair(links[left].previous, left);
  }
  std::erase_if(symbols, [](const ModelToken& s) { return s.id < 0; });
}

void merge_by_heap(const MergeTable& merges, std::vector<ModelToken>& symbols) {
  MergeQueue(merges, symbols).run();
}

}  // namespace xrun

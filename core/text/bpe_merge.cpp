#include "core/text/bpe_merge.h"

#include <algorithm>
#include <queue>

namespace xrun {

namespace {

constexpr size_t kScanLimit = 64;  // symbols; the two cost the same at about 100

// A pair that may be merged, as it was when it was found.
struct Candidate {
  uint32_t rank;
  uint32_t left;  // index of the left symbol
  int32_t left_id;
  int32_t right_id;
  int32_t id;
  bool operator>(const Candidate& other) const {
    return rank != other.rank ? rank > other.rank : left > other.left;
  }
};

// Symbols as a linked list; a symbol that was merged into its left neighbour has id -1.
class MergeQueue {
 public:
  MergeQueue(const MergeTable& merges, std::vector<Symbol>& symbols)
      : merges_(merges), symbols_(symbols), previous_(symbols.size()), next_(symbols.size()) {
    for (size_t i = 0; i < symbols.size(); ++i) {
      previous_[i] = uint32_t(i) - 1;
      next_[i] = uint32_t(i) + 1;
    }
    std::vector<Candidate> first;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const Merge merge = merges.find(symbols[i].id, symbols[i + 1].id);
      if (merge.rank == kNoMerge) continue;
      first.push_back({merge.rank, uint32_t(i), symbols[i].id, symbols[i + 1].id, merge.id});
    }
    queue_ = Queue(std::greater<>(), std::move(first));
  }

  void run() {
    while (!queue_.empty()) {
      const Candidate best = queue_.top();
      queue_.pop();
      const uint32_t right = next_[best.left];
      if (symbols_[best.left].id != best.left_id || right >= symbols_.size() ||
          symbols_[right].id != best.right_id) {
        continue;  // one of the two has been merged since
      }
      symbols_[best.left].id = best.id;
      symbols_[best.left].end = symbols_[right].end;
      symbols_[right].id = -1;
      next_[best.left] = next_[right];
      if (next_[right] < symbols_.size()) previous_[next_[right]] = best.left;
      if (best.left > 0) add(previous_[best.left]);
      add(best.left);
    }
    std::erase_if(symbols_, [](const Symbol& s) { return s.id < 0; });
  }

 private:
  using Queue = std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>>;

  void add(uint32_t left) {
    const uint32_t right = next_[left];
    if (right >= symbols_.size()) return;
    const int32_t a = symbols_[left].id, b = symbols_[right].id;
    const Merge merge = merges_.find(a, b);
    if (merge.rank != kNoMerge) queue_.push({merge.rank, left, a, b, merge.id});
  }

  const MergeTable& merges_;
  std::vector<Symbol>& symbols_;
  std::vector<uint32_t> previous_;
  std::vector<uint32_t> next_;
  Queue queue_;
};

}  // namespace

void merge_symbols(const MergeTable& merges, std::vector<Symbol>& symbols) {
  if (symbols.size() <= kScanLimit) {
    merge_by_scan(merges, symbols);
  } else {
    merge_by_heap(merges, symbols);
  }
}

void merge_by_scan(const MergeTable& merges, std::vector<Symbol>& symbols) {
  thread_local std::vector<Merge> pairs;  // pairs[i] is the merge of symbols i and i + 1
  size_t n = symbols.size();
  if (n < 2) return;
  pairs.resize(n);
  const auto look = [&](size_t i) { return merges.find(symbols[i].id, symbols[i + 1].id); };
  for (size_t i = 0; i + 1 < n; ++i) merges.prefetch(symbols[i].id, symbols[i + 1].id);
  for (size_t i = 0; i + 1 < n; ++i) pairs[i] = look(i);
  while (n > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < n; ++i) {
      if (pairs[i].rank < pairs[best].rank) best = i;
    }
    if (pairs[best].rank == kNoMerge) break;
    symbols[best].id = pairs[best].id;
    symbols[best].end = symbols[best + 1].end;
    std::copy(symbols.begin() + int64_t(best) + 2, symbols.begin() + int64_t(n),
              symbols.begin() + int64_t(best) + 1);
    std::copy(pairs.begin() + int64_t(best) + 2, pairs.begin() + int64_t(n),
              pairs.begin() + int64_t(best) + 1);
    --n;
    if (best > 0) pairs[best - 1] = look(best - 1);
    if (best + 1 < n) pairs[best] = look(best);
  }
  symbols.resize(n);
}

void merge_by_heap(const MergeTable& merges, std::vector<Symbol>& symbols) {
  MergeQueue(merges, symbols).run();
}

}  // namespace xrun

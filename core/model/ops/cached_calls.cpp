// A sequence becomes an item of its rows against its own keys; neighbours that share keys become
// one item of all their rows against these. Items of similar sizes become one call.

#include "core/model/ops/cached_calls.h"

#include <ATen/ops/tensor.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "core/model/ops/device.h"

namespace xrun {

namespace {

// Rows [first, last) of q against blocks of keys.
struct CachedItem {
  int64_t first, last;
  std::span<const int64_t> blocks;
  int64_t start, end;  // as in CachedCall

  int64_t rows() const { return last - first; }
  int64_t count() const { return std::ssize(blocks); }
};

// Collects index tensors and sends them to the device in one copy.
class IndexCopy {
 public:
  // `to` must outlive send().
  void add(at::Tensor& to, const std::vector<int64_t>& values, std::vector<int64_t> sizes) {
    wanted_.push_back({&to, std::ssize(values_), std::ssize(values), std::move(sizes)});
    values_.insert(values_.end(), values.begin(), values.end());
  }
  void send(c10::Device device) const {
    const at::Tensor all = on_device(at::tensor(values_, at::dtype(at::kLong)), device);
    for (const Wanted& one : wanted_) {
      *one.to = all.narrow(0, one.first, one.count).view(one.sizes);
    }
  }

 private:
  struct Wanted {
    at::Tensor* to;
    int64_t first, count;
    std::vector<int64_t> sizes;
  };
  std::vector<int64_t> values_;
  std::vector<Wanted> wanted_;
};

class CallPlan {
 public:
  CallPlan(const std::vector<CachedSequence>& sequences, const CachedSizes& sizes) : sizes_(sizes) {
    for (const CachedSequence& s : sequences) {
      first_.push_back(std::ssize(positions_));
      for (int64_t t = s.length - s.tokens; t < s.length; ++t) positions_.push_back(t);
    }
    first_.push_back(std::ssize(positions_));
    for (size_t s = 0, next; s < sequences.size(); s = next) {
      next = s + 1;
      const int64_t shared = next < sequences.size() ? common(sequences[s], sequences[next]) : 0;
      while (shared > 0 && next < sequences.size() &&
             common(sequences[s], sequences[next]) >= shared) {
        ++next;
      }
      const auto blocks = [&](size_t i) { return std::span<const int64_t>(sequences[i].blocks); };
      const int64_t end = shared * sizes_.block;
      if (shared > 0) {
        add(shared_,
            {first_[s], first_[next], blocks(s).first(static_cast<size_t>(shared)), 0, end});
      }
      for (size_t i = s; i < next; ++i) {
        add(own_, {first_[i], first_[i + 1], blocks(i).subspan(static_cast<size_t>(shared)), end,
                   sequences[i].length});
      }
    }
  }

  CachedCalls calls(c10::Device device) {
    CachedCalls calls;
    IndexCopy copy;
    fill(calls.own, batches(std::move(own_)), copy);
    fill(calls.shared, batches(std::move(shared_)), copy);
    copy.send(device);
    return calls;
  }

 private:
  // Returns the number of blocks that both begin with. Only full blocks without a new token are
  // ever in two sequences.
  static int64_t common(const CachedSequence& a, const CachedSequence& b) {
    if (a.tokens == 0 || b.tokens == 0) return 0;
    const auto [end, unused] =
        std::mismatch(a.blocks.begin(), a.blocks.end(), b.blocks.begin(), b.blocks.end());
    return end - a.blocks.begin();
  }

  // Adds an item, cut where its scores alone would exceed a call.
  void add(std::vector<CachedItem>& items, const CachedItem& item) const {
    const int64_t row = sizes_.heads * item.count() * sizes_.block;
    const int64_t most = std::max<int64_t>(kCachedCallElements / std::max<int64_t>(row, 1), 1);
    for (int64_t t = item.first; t < item.last; t += most) {
      items.push_back({t, std::min(t + most, item.last), item.blocks, item.start, item.end});
    }
  }

  // Returns the fp32 elements of a call, as kCachedCallElements counts them.
  int64_t cost(int64_t items, int64_t rows, int64_t blocks) const {
    return items * blocks * sizes_.block *
           (2 * sizes_.kv_heads * sizes_.head_dim + rows * sizes_.heads);
  }

  // Groups items of similar sizes into calls; padding at most doubles a call.
  std::vector<std::vector<CachedItem>> batches(std::vector<CachedItem> items) const {
    std::stable_sort(items.begin(), items.end(), [](const CachedItem& a, const CachedItem& b) {
      return std::pair(a.rows(), a.count()) < std::pair(b.rows(), b.count());
    });
    std::vector<std::vector<CachedItem>> all;
    int64_t rows = 0, blocks = 0, sum = 0;
    for (const CachedItem& item : items) {
      rows = std::max(rows, item.rows());
      blocks = std::max(blocks, item.count());
      sum += cost(1, item.rows(), item.count());
      const int64_t padded = all.empty() ? 0 : cost(std::ssize(all.back()) + 1, rows, blocks);
      if (all.empty() || padded > std::min(kCachedCallElements, 2 * sum)) {
        all.emplace_back();
        rows = item.rows();
        blocks = item.count();
        sum = cost(1, rows, blocks);
      }
      all.back().push_back(item);
    }
    return all;
  }

  void fill(std::vector<CachedCall>& calls, const std::vector<std::vector<CachedItem>>& batches,
            IndexCopy& copy) const {
    calls.resize(batches.size());
    for (size_t c = 0; c < calls.size(); ++c) fill(calls[c], batches[c], copy);
  }

  void fill(CachedCall& call, const std::vector<CachedItem>& items, IndexCopy& copy) const {
    const int64_t B = std::ssize(items);
    int64_t n = 0, b = 0;
    for (const CachedItem& item : items) {
      n = std::max(n, item.rows());
      b = std::max(b, item.count());
    }
    std::vector<int64_t> blocks, start, end, queries, positions, rows, unpadded;
    for (const CachedItem& item : items) {
      start.push_back(item.start);
      end.push_back(item.end);
      for (int64_t i = 0; i < b; ++i) {
        blocks.push_back(item.blocks[static_cast<size_t>(i < item.count() ? i : 0)]);
      }
      for (int64_t i = 0; i < n; ++i) {
        const int64_t row = i < item.rows() ? item.first + i : item.first;
        if (i < item.rows()) {
          unpadded.push_back(std::ssize(queries));
          rows.push_back(row);
        }
        queries.push_back(row);
        positions.push_back(positions_[static_cast<size_t>(row)]);
      }
    }
    copy.add(call.blocks, blocks, {B, b});
    copy.add(call.start, start, {B});
    copy.add(call.end, end, {B});
    copy.add(call.queries, queries, {B, n});
    copy.add(call.positions, positions, {B, n});
    if (unpadded.size() < queries.size()) copy.add(call.unpadded, unpadded, {std::ssize(rows)});
    std::vector<int64_t> in_order(positions_.size());
    std::iota(in_order.begin(), in_order.end(), 0);
    if (queries != in_order) copy.add(call.rows, rows, {std::ssize(rows)});
  }

  CachedSizes sizes_;
  std::vector<int64_t> first_;      // by sequence, its first row
  std::vector<int64_t> positions_;  // by row
  std::vector<CachedItem> own_, shared_;
};

}  // namespace

CachedCalls cached_calls(const std::vector<CachedSequence>& sequences, const CachedSizes& sizes,
                         c10::Device device) {
  return CallPlan(sequences, sizes).calls(device);
}

}  // namespace xrun

#pragma once
// Pending gathers of flat buckets in a queue, oldest first, and the updated weights that they
// bring.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "core/dist/flat_index.h"
#include "core/dist/ranks.h"
#include "core/model/incoming_weights.h"

namespace xrun {

class GatherQueue {
 public:
  using Arrived = std::function<void(int64_t bucket, const at::Tensor& buffer)>;
  // `arrived` is called for each bucket whose gather has ended, in order.
  explicit GatherQueue(Arrived arrived) : arrived_(std::move(arrived)) {}

  // Adds a gather of `sent` into `buffer`; both stay alive until it has ended.
  void push(int64_t bucket, const at::Tensor& buffer, const at::Tensor& sent,
            std::unique_ptr<PendingCollective> pending);

  bool has(int64_t bucket) const;
  size_t size() const { return gathers_.size(); }
  // Waits for the oldest gather. One that failed stays, so that every later wait fails too.
  void finish_oldest();
  // Waits until at most this many are left.
  void finish(size_t left = 0);
  // Waits for all and ignores errors: the memory belongs to the transport until they end.
  void close() noexcept;
  // Drops all without waiting, since some will never end. The transport keeps their memory.
  void abandon() { gathers_.clear(); }

 private:
  struct Gather {
    int64_t bucket;
    at::Tensor buffer, sent;
    std::unique_ptr<PendingCollective> pending;
  };
  Arrived arrived_;
  std::deque<Gather> gathers_;
};

// Updated weights that other ranks send, one bucket at a time.
class IncomingBuckets : public IncomingWeights {
 public:
  //   weights  the masters, one for each tensor of the index
  IncomingBuckets(const FlatIndex& index, const std::vector<at::Tensor>& weights,
                  GatherQueue::Arrived arrived);

  GatherQueue& queue() { return queue_; }
  void await(const at::Tensor& master) override;
  void await_all() override { queue_.finish(); }

 private:
  GatherQueue queue_;
  std::unordered_map<const void*, int64_t> bucket_of_;  // by the identity of a master
};

}  // namespace xrun

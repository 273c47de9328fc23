#pragma once
// All-gathers in flight, few at a time: each holds a buffer.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "core/dist/ranks.h"

namespace xrun {

// Gathers arrive in the order in which they were pushed. Not thread-safe.
class GatherQueue {
 public:
  // Called with each gather's group and filled buffer.
  using Arrived = std::function<void(int64_t group, const at::Tensor& buffer)>;
  explicit GatherQueue(Arrived arrived) : arrived_(std::move(arrived)) {}

  // Takes a gather of `sent` into `buffer`, and waits for the oldest one if there are many. Throws
  // what PendingCollective::wait throws.
  void push(int64_t group, const at::Tensor& buffer, const at::Tensor& sent,
            std::unique_ptr<PendingCollective> pending) {
    gathers_.push_back({group, buffer, sent, std::move(pending)});
    if (gathers_.size() == kInFlight) finish_oldest();
  }
  void finish() {
    while (!gathers_.empty()) finish_oldest();
  }

 private:
  // Enough to keep the transport busy, few enough to bound the buffers.
  static constexpr size_t kInFlight = 4;

  struct Gather {
    int64_t group;
    at::Tensor buffer, sent;
    std::unique_ptr<PendingCollective> pending;
  };
  void finish_oldest() {
    const Gather gather = std::move(gathers_.front());
    gathers_.pop_front();
    gather.pending->wait();
    arrived_(gather.group, gather.buffer);
  }

  Arrived arrived_;
  std::deque<Gather> gathers_;
};

}  // namespace xrun

// Gathers on every rank the ranges that each rank computed: gradient sums at level 0, weights after
// an update. Each bucket of the flat index is one collective.

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <fmt/core.h>

#include <algorithm>
#include <deque>

#include "core/train/adamw_state.h"

namespace xrun {

namespace {

// Enough to keep the transport busy, few enough to bound the buffers.
constexpr size_t kGathersInFlight = 4;

// Gathers in flight, few at a time: each holds a buffer.
class GatherQueue {
 public:
  using Arrived = std::function<void(int64_t bucket, const at::Tensor& buffer)>;
  explicit GatherQueue(Arrived arrived) : arrived_(std::move(arrived)) {}

  // Takes a gather of `sent` into `buffer`, and waits for the oldest one if there are many.
  void push(int64_t bucket, const at::Tensor& buffer, const at::Tensor& sent,
            std::unique_ptr<PendingCollective> pending) {
    gathers_.push_back({bucket, buffer, sent, std::move(pending)});
    if (gathers_.size() == kGathersInFlight) finish_oldest();
  }
  void finish() {
    while (!gathers_.empty()) finish_oldest();
  }

 private:
  struct Gather {
    int64_t bucket;
    at::Tensor buffer, sent;
    std::unique_ptr<PendingCollective> pending;
  };
  void finish_oldest() {
    const Gather gather = std::move(gathers_.front());
    gathers_.pop_front();
    gather.pending->wait();
    arrived_(gather.bucket, gather.buffer);
  }

  Arrived arrived_;
  std::deque<Gather> gathers_;
};

}  // namespace

// The sums of all ranks, bucket by bucket.
void AdamWState::gather_gradients() {
  // Sums arrive in place: whole_ is their buffer.
  GatherQueue gathers([](int64_t, const at::Tensor&) {});
  for (int64_t b = 0; b < static_cast<int64_t>(index_.buckets().size()); ++b) {
    const auto i = static_cast<size_t>(b);
    const auto first = static_cast<size_t>(index_.buckets()[i].first_tensor);
    const auto options = weights_[first].options().requires_grad(false);
    if (!whole_[i].defined()) whole_[i] = at::empty({index_.buckets()[i].size}, options);
    const at::Tensor& sum = exchange_->sum(b);
    const at::Tensor own = sum.defined() ? sum : at::zeros({owned_.size(b, rank_)}, options);
    gathers.push(b, whole_[i], own,
                 dist_.ranks->all_gather(fmt::format("summed gradients of bucket {}", b), whole_[i],
                                         owned_.sizes(b), own));
  }
  gathers.finish();
}

void AdamWState::copy_weights(int64_t bucket, const at::Tensor& buffer, int64_t rank,
                              bool into_buffer) {
  const FlatBucket& of = index_.buckets()[static_cast<size_t>(bucket)];
  for (int64_t t = of.first_tensor; t < of.first_tensor + of.tensor_count; ++t) {
    const FlatTensor& flat = index_.tensors()[static_cast<size_t>(t)];
    const int64_t begin = std::max(flat.offset, owned_.begin(bucket, rank));
    const int64_t end = std::min(flat.offset + flat.elements, owned_.end(bucket, rank));
    if (begin >= end) continue;
    const at::Tensor weight = flat_weight(t, begin - flat.offset, end - begin);
    const at::Tensor flat_values = buffer.narrow(0, begin, end - begin);
    into_buffer ? flat_values.copy_(weight) : weight.copy_(flat_values);
  }
}

void AdamWState::gather_weights() {
  GatherQueue gathers([&](int64_t bucket, const at::Tensor& buffer) {
    for (int64_t r = 0; r < size_; ++r) {
      // Its own range is up to date already.
      if (r != rank_) copy_weights(bucket, buffer, r, /*into_buffer=*/false);
    }
  });
  for (int64_t b = 0; b < static_cast<int64_t>(index_.buckets().size()); ++b) {
    const auto i = static_cast<size_t>(b);
    const auto first = static_cast<size_t>(index_.buckets()[i].first_tensor);
    // A bucket belongs to one object.
    if (owners_[first].trainable->holds_ranges()) continue;
    const at::Tensor buffer =
        at::zeros({index_.buckets()[i].size}, weights_[first].options().requires_grad(false));
    copy_weights(b, buffer, rank_, /*into_buffer=*/true);
    const at::Tensor own = buffer.narrow(0, owned_.begin(b, rank_), owned_.size(b, rank_));
    gathers.push(b, buffer, own,
                 dist_.ranks->all_gather(fmt::format("updated weights of bucket {}", b), buffer,
                                         owned_.sizes(b), own));
  }
  gathers.finish();
}

}  // namespace xrun

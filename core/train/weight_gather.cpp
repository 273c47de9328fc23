// Gathers on every rank the ranges that each rank computed: gradient sums at level 0, weights after
// an update. Each bucket of the flat index is one collective.

#include "core/train/weight_gather.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <fmt/core.h>

#include <algorithm>
#include <exception>

#include "core/train/adamw_state.h"

namespace xrun {

namespace {

// Enough to keep the transport busy, few enough to bound buffers that serve nothing else.
constexpr size_t kGathersInFlight = 4;

}  // namespace

void GatherQueue::push(int64_t bucket, const at::Tensor& buffer, const at::Tensor& sent,
                       std::unique_ptr<PendingCollective> pending) {
  gathers_.push_back({bucket, buffer, sent, std::move(pending)});
}

bool GatherQueue::has(int64_t bucket) const {
  return std::ranges::any_of(gathers_, [&](const Gather& one) { return one.bucket == bucket; });
}

void GatherQueue::finish_oldest() {
  const Gather& gather = gathers_.front();
  gather.pending->wait();
  arrived_(gather.bucket, gather.buffer);
  gathers_.pop_front();
}

void GatherQueue::finish(size_t left) {
  while (gathers_.size() > left) finish_oldest();
}

void GatherQueue::close() noexcept {
  while (!gathers_.empty()) {
    try {
      finish_oldest();
    } catch (const std::exception&) {
      gathers_.pop_front();
    }
  }
}

IncomingBuckets::IncomingBuckets(const FlatIndex& index, const std::vector<at::Tensor>& weights,
                                 GatherQueue::Arrived arrived)
    : queue_(std::move(arrived)) {
  for (size_t t = 0; t < weights.size(); ++t) {
    bucket_of_.emplace(weights[t].unsafeGetTensorImpl(), index.tensors()[t].bucket);
  }
}

void IncomingBuckets::await(const at::Tensor& master) {
  if (queue_.size() == 0) return;
  const auto found = bucket_of_.find(master.unsafeGetTensorImpl());
  if (found == bucket_of_.end()) return;
  while (queue_.has(found->second)) queue_.finish_oldest();
}

// Gathers the sums of all ranks, bucket by bucket.
void AdamWState::gather_gradients() {
  // Sums arrive in place: whole_ is their buffer.
  GatherQueue gathers([](int64_t /*bucket*/, const at::Tensor& /*buffer*/) {});
  for (int64_t b = 0; b < static_cast<int64_t>(index_.buckets().size()); ++b) {
    const auto i = static_cast<size_t>(b);
    const auto first = static_cast<size_t>(index_.buckets()[i].first_tensor);
    const auto options = weights_[first].options().requires_grad(false);
    if (!whole_[i].defined()) whole_[i] = at::empty({index_.buckets()[i].size}, options);
    const at::Tensor& sum = exchange_->sum(b);
    const at::Tensor own = sum.defined() ? sum : at::zeros({owned_.size(b, rank_)}, options);
    gathers.finish(kGathersInFlight - 1);
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

void AdamWState::gather_bucket(int64_t bucket) {
  const auto i = static_cast<size_t>(bucket);
  const FlatBucket& of = index_.buckets()[i];
  const at::TensorOptions options =
      weights_[static_cast<size_t>(of.first_tensor)].options().requires_grad(false);
  GatherQueue& queue = incoming_->queue();
  // Gradients are sent from a buffer that is free until the next backward.
  at::Tensor buffer = exchange_->free_buffer(bucket);
  if (!buffer.defined()) {
    queue.finish(kGathersInFlight - 1);
    buffer = at::zeros({of.size}, options);
  }
  copy_weights(bucket, buffer, rank_, /*into_buffer=*/true);
  const at::Tensor own = buffer.narrow(0, owned_.begin(bucket, rank_), owned_.size(bucket, rank_));
  queue.push(bucket, buffer, own,
             dist_.ranks->all_gather(fmt::format("updated weights of bucket {}", bucket), buffer,
                                     owned_.sizes(bucket), own));
}

// Gathers first the weights that must arrive at once, then those that a forward awaits, in its
// order.
void AdamWState::gather_weights() {
  incoming_->await_all();
  for (const bool awaited : {false, true}) {
    for (int64_t b = 0; b < static_cast<int64_t>(index_.buckets().size()); ++b) {
      // A bucket has weights of one group: of one object, and all in ranges or none.
      const auto first = static_cast<size_t>(index_.buckets()[static_cast<size_t>(b)].first_tensor);
      const WeightOwner& owner = owners_[first];
      if (owner.trainable->holds_ranges(owner.parameter) || owner.awaits != awaited) continue;
      gather_bucket(b);
    }
    if (!awaited) incoming_->await_all();
  }
}

// Copies the ranges of the other ranks; this rank's own is up to date.
void AdamWState::take_weights(int64_t bucket, const at::Tensor& buffer) {
  const at::NoGradGuard no_grad;
  for (int64_t r = 0; r < size_; ++r) {
    if (r != rank_) copy_weights(bucket, buffer, r, /*into_buffer=*/false);
  }
}

}  // namespace xrun

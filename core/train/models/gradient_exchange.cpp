// A rank sends one piece of a bucket to each owner: a flag per tensor of the owner's range, 1 if
// the rank has a gradient of it, then the values of the range. On every rank buckets are launched
// from the last to the first, the order in which a backward finishes them.

#include "core/train/models/gradient_exchange.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/dist/fetching_ranks.h"
#include "core/model/incoming_weights.h"

namespace xrun {

namespace {

// Buckets under way at a time: enough to keep the transport busy, few enough to bound their memory.
constexpr size_t kInFlight = 4;

}  // namespace

// Tells the exchange that the backward has accumulated a weight's gradient.
class GradientReady : public torch::autograd::PostAccumulateGradHook {
 public:
  GradientReady(GradientExchange& exchange, int64_t tensor)
      : exchange_(exchange), tensor_(tensor) {}
  void operator()(const at::Tensor& /*weight*/) override { exchange_.on_gradient(tensor_); }

 private:
  GradientExchange& exchange_;
  int64_t tensor_;
};

FetchingRanks* ranks_to_fetch_from(const DistOptions& dist, int64_t from_level) {
  if (dist.ranks == nullptr || dist.ranks->size() == 1 || dist.level < from_level) return nullptr;
  return dynamic_cast<FetchingRanks*>(dist.ranks);
}

GradientExchange::GradientExchange(const FlatIndex& index, const RankRanges& ranges,
                                   std::vector<at::Tensor> weights, const DistOptions& options,
                                   std::shared_ptr<IncomingWeights> incoming)
    : index_(index),
      ranges_(ranges),
      weights_(std::move(weights)),
      options_(options),
      rank_(options.ranks->rank()),
      size_(options.ranks->size()),
      incoming_(std::move(incoming)),
      staging_(index.buckets().size()),
      sums_(index.buckets().size()),
      seen_(index.tensors().size()),
      packed_(index.tensors().size()),
      missing_(index.buckets().size()) {
  const auto buckets = static_cast<int64_t>(index.buckets().size());
  for (int64_t b = 0; b < buckets; ++b) {
    for (int64_t r = 0; r < size_; ++r) {
      RankPiece piece;
      for (int64_t c = ranges.first_slice(b, r); c < ranges.end_slice(b, r); ++c) {
        const int64_t tensor = index.slices()[static_cast<size_t>(c)].tensor;
        if (piece.tensors.empty() || piece.tensors.back() != tensor)
          piece.tensors.push_back(tensor);
      }
      // A flag is a float as well, so that a piece is one list of one type.
      piece.size = static_cast<int64_t>(piece.tensors.size()) + ranges.size(b, r);
      pieces_.push_back(std::move(piece));
    }
  }
  for (size_t t = 0; t < weights_.size(); ++t) {
    torch::autograd::impl::set_post_acc_grad_hooks(
        weights_[t], std::make_unique<GradientReady>(*this, static_cast<int64_t>(t)));
  }
}

GradientExchange::~GradientExchange() {
  for (const at::Tensor& weight : weights_) {
    torch::autograd::impl::set_post_acc_grad_hooks(weight, nullptr);
  }
}

const GradientExchange::RankPiece& GradientExchange::piece(int64_t bucket, int64_t rank) const {
  return pieces_[static_cast<size_t>(bucket * size_ + rank)];
}

// With fewer items than ranks the last ranks have none and only receive.
bool GradientExchange::sends(int64_t rank) const { return exchanges_ && rank < senders_; }

void GradientExchange::begin_exchange(const ExchangedItems& items) {
  XRUN_CHECK(!open_, "a gradient exchange started before the previous one ended");
  items_ = items;
  open_ = true;
  // If not exact, each rank first adds up its own items.
  exchanges_ = options_.exact || items.last;
  // The last round may have fewer items, but ranks that had earlier ones still hold sums.
  senders_ = std::max(senders_, items.count);
  // The backward ends with the first layers, so the last bucket is ready first.
  next_ = static_cast<int64_t>(index_.buckets().size()) - 1;
  packed_.assign(packed_.size(), false);
  for (size_t b = 0; b < missing_.size(); ++b) missing_[b] = index_.buckets()[b].tensor_count;
}

void GradientExchange::on_gradient(int64_t tensor) {
  // A backward outside a step keeps its gradients, and so does an item of several backwards.
  if (!open_ || !exchanges_ || !items_.one_backward || rank_ >= items_.count) return;
  XRUN_CHECK(!packed_[static_cast<size_t>(tensor)],
             "{} got a second gradient from one backward, after the first was exchanged",
             index_.tensors()[static_cast<size_t>(tensor)].name);
  const at::NoGradGuard no_grad;
  pack(tensor);
  launch_ready();
}

void GradientExchange::pack(int64_t tensor) {
  const auto t = static_cast<size_t>(tensor);
  const FlatTensor& flat = index_.tensors()[t];
  const auto b = static_cast<size_t>(flat.bucket);
  at::Tensor& staging = staging_[b];
  if (missing_[b] == index_.buckets()[b].tensor_count) {
    // The bucket of an earlier item is sent from the same buffer, and so are updated weights.
    if (staging.defined()) finish_sent_from(flat.bucket);
    if (incoming_) incoming_->await_all();
    int64_t size = 0;
    for (int64_t r = 0; r < size_; ++r) size += piece(flat.bucket, r).size;
    if (!staging.defined()) staging = at::zeros({size}, weights_[t].options().requires_grad(false));
    // Values of weights without a gradient are sent, and ignored.
    for (int64_t r = 0, first = 0; r < size_; first += piece(flat.bucket, r++).size) {
      const auto flags = static_cast<int64_t>(piece(flat.bucket, r).tensors.size());
      staging.narrow(0, first, flags).zero_();
    }
  }
  const at::Tensor gradient = weights_[t].grad().reshape({-1});
  int64_t first = 0;
  for (int64_t r = 0; r < size_; ++r) {
    const RankPiece& to = piece(flat.bucket, r);
    const auto flag = std::find(to.tensors.begin(), to.tensors.end(), tensor);
    if (flag != to.tensors.end()) {
      staging.narrow(0, first + (flag - to.tensors.begin()), 1).fill_(1);
      const int64_t begin = std::max(flat.offset, ranges_.begin(flat.bucket, r));
      const int64_t end = std::min(flat.offset + flat.elements, ranges_.end(flat.bucket, r));
      const int64_t values = first + static_cast<int64_t>(to.tensors.size());
      staging.narrow(0, values + begin - ranges_.begin(flat.bucket, r), end - begin)
          .copy_(gradient.narrow(0, begin - flat.offset, end - begin));
    }
    first += to.size;
  }
  // The values are in the staging buffer; the gradient's memory is free for the next layers.
  weights_[t].mutable_grad().reset();
  packed_[t] = true;
  --missing_[b];
}

void GradientExchange::launch_ready() {
  // In a fixed order: every rank must launch the same collectives one after the other.
  while (next_ >= 0 && missing_[static_cast<size_t>(next_)] == 0) launch(next_--);
}

void GradientExchange::launch(int64_t bucket) {
  // Also bounds how long a finished bucket keeps its buffers.
  if (pending_.size() == kInFlight) finish_oldest();
  const auto b = static_cast<size_t>(bucket);
  std::vector<int64_t> in_sizes, out_sizes;
  int64_t out_size = 0;
  for (int64_t r = 0; r < size_; ++r) {
    in_sizes.push_back(sends(rank_) ? piece(bucket, r).size : 0);
    out_sizes.push_back(sends(r) ? piece(bucket, rank_).size : 0);
    out_size += out_sizes.back();
    if (r != rank_) sent_bytes_ += 4 * in_sizes.back();
  }
  const auto options = weights_.front().options().requires_grad(false);
  Launched launched{.bucket = bucket};
  if (!sends(rank_)) {
    launched.in = at::empty({0}, options);
  } else if (missing_[b] == index_.buckets()[b].tensor_count) {
    // No weight of the bucket has a gradient: flags of 0.
    int64_t size = 0;
    for (const int64_t piece : in_sizes) size += piece;
    launched.in = at::zeros({size}, options);
  } else {
    launched.in = staging_[b];
  }
  // Sent by reference; from level 2 on no rank keeps a whole gradient.
  if (options_.level >= 2) staging_[b].reset();
  launched.out = at::empty({out_size}, options);
  launched.pending = options_.ranks->exchange(fmt::format("gradients of bucket {}", bucket),
                                              launched.out, out_sizes, launched.in, in_sizes);
  pending_.push_back(std::move(launched));
}

void GradientExchange::finish_sent_from(int64_t bucket) {
  const auto is_of = [&](const Launched& launched) { return launched.bucket == bucket; };
  while (std::ranges::any_of(pending_, is_of)) finish_oldest();
}

void GradientExchange::finish_oldest() {
  Launched launched = std::move(pending_.front());
  pending_.pop_front();
  launched.pending->wait();
  const int64_t size = piece(launched.bucket, rank_).size;
  // In rank order, which is the order of the items.
  for (int64_t first = 0; first < launched.out.numel(); first += size) {
    add(launched.bucket, launched.out.narrow(0, first, size));
  }
}

at::Tensor GradientExchange::free_buffer(int64_t bucket) const {
  const at::Tensor& staging = staging_[static_cast<size_t>(bucket)];
  if (!staging.defined()) return {};
  return staging.narrow(0, 0, index_.buckets()[static_cast<size_t>(bucket)].size);
}

void GradientExchange::add(int64_t bucket, const at::Tensor& values) {
  const RankPiece& own = piece(bucket, rank_);
  const auto flags_size = static_cast<int64_t>(own.tensors.size());
  // A few numbers: on a GPU this waits for the bucket, which is complete here.
  const at::Tensor flags = values.narrow(0, 0, flags_size).cpu();
  const int64_t begin = ranges_.begin(bucket, rank_), end = ranges_.end(bucket, rank_);
  at::Tensor& sum = sums_[static_cast<size_t>(bucket)];
  // Not zeros: every part that is read has been copied by its first gradient.
  if (!sum.defined()) sum = at::empty({end - begin}, values.options());
  for (int64_t i = 0; i < flags_size; ++i) {
    if (flags.const_data_ptr<float>()[i] == 0) continue;
    const int64_t tensor = own.tensors[static_cast<size_t>(i)];
    const FlatTensor& flat = index_.tensors()[static_cast<size_t>(tensor)];
    const int64_t from = std::max(flat.offset, begin) - begin;
    const int64_t to = std::min(flat.offset + flat.elements, end) - begin;
    const at::Tensor target = sum.narrow(0, from, to - from);
    const at::Tensor piece = values.narrow(0, flags_size + from, to - from);
    // The first gradient is taken as it is: 0 + -0 would be another 0.
    seen_[static_cast<size_t>(tensor)] ? target.add_(piece) : target.copy_(piece);
    seen_[static_cast<size_t>(tensor)] = true;
  }
}

void GradientExchange::end_exchange() {
  if (!open_) return;
  const at::NoGradGuard no_grad;
  if (exchanges_) {
    for (int64_t b = next_; b >= 0; --b) {
      const FlatBucket& bucket = index_.buckets()[static_cast<size_t>(b)];
      for (int64_t t = bucket.first_tensor; t < bucket.first_tensor + bucket.tensor_count; ++t) {
        const auto i = static_cast<size_t>(t);
        // Weights that the hooks did not see: an item of several backwards, or one that failed.
        if (sends(rank_) && !packed_[i] && weights_[i].grad().defined()) pack(t);
      }
      next_ = b - 1;
      launch(b);
    }
    // Buckets of earlier items arrive while the next ones are computed.
    while (items_.last && !pending_.empty()) finish_oldest();
    senders_ = 0;
  }
  open_ = false;
}

void GradientExchange::abandon() {
  pending_.clear();
  for (at::Tensor& staging : staging_) staging.reset();
  clear();
}

void GradientExchange::clear() {
  // Memory belongs to the transport until a collective ends, whether or not it fails.
  for (Launched& launched : pending_) {
    try {
      launched.pending->wait();
    } catch (const std::exception&) {
    }
  }
  pending_.clear();
  open_ = false;
  senders_ = 0;
  for (at::Tensor& sum : sums_) sum.reset();
  seen_.assign(seen_.size(), false);
  for (const at::Tensor& weight : weights_) weight.mutable_grad().reset();
}

}  // namespace xrun

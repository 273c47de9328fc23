// Each bucket has one buffer for exp_avg and one for exp_avg_sq. A buffer covers the rank's range
// of the bucket, in the order of the flat index. One pass over all elements updates the weights.

#include "core/train/adamw_state.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/base/error.h"
#include "core/model/model.h"
#include "core/train/element_runs.h"

namespace xrun {

namespace {

constexpr double kNoGradient = -1;  // instead of the sum of squares of a slice

std::vector<TensorShape> shapes_of(const std::vector<std::shared_ptr<Trainable>>& trainables) {
  std::vector<TensorShape> shapes;
  for (size_t i = 0; i < trainables.size(); ++i) {
    // Objects trained together may share names, so those after the first get a prefix.
    const std::string prefix = i == 0 ? std::string() : fmt::format("{}/", i);
    for (size_t p = 0; p < trainables[i]->parameters().size(); ++p) {
      const Parameter& parameter = trainables[i]->parameters()[p];
      const at::Tensor& master = parameter.master;
      XRUN_CHECK(master.defined() && master.scalar_type() == at::kFloat && master.requires_grad(),
                 "{} cannot be trained: wanted an fp32 weight that requires a gradient",
                 parameter.name);
      // Weights that ranks hold in ranges form a group of their own, so that the ranges of their
      // moments do not depend on the other weights.
      const auto group = static_cast<int64_t>(2 * i) + (trainables[i]->holds_ranges(p) ? 0 : 1);
      // The names of the moments in a checkpoint.
      shapes.push_back({prefix + parameter.name, master.sizes().vec(), group});
    }
  }
  return shapes;
}

// The update through ATen, for weights that are not on the CPU.
void update_by_ops(at::Tensor p, const at::Tensor& grad, at::Tensor m, at::Tensor v,
                   const kernels::AdamWFactors& f) {
  // m and v come first, because p reads both.
  const at::Tensor g = grad.mul(f.clip);
  m.lerp_(g, f.beta1_rest);
  v.mul_(f.beta2).addcmul_(g, g, f.beta2_rest);
  // Decoupled decay: the weight itself shrinks before the step.
  p.mul_(f.decay).addcdiv_(m, v.sqrt().div_(f.root).add_(f.eps), -f.step);
}

// The kernel's arguments for one weight, or a range of it.
struct UpdateRun {
  float* weight;
  const float* gradient;
  float *mean, *square;
  kernels::AdamWFactors factors;
};

void apply(const UpdateRun& run, int64_t begin, int64_t end) {
  kernels::adamw_update(run.weight + begin, run.gradient + begin, run.mean + begin,
                        run.square + begin, end - begin, run.factors);
}

}  // namespace

AdamWState::AdamWState(const std::vector<std::shared_ptr<Trainable>>& trainables,
                       const DistOptions& dist)
    : dist_(dist),
      rank_(dist.ranks == nullptr ? 0 : dist.ranks->rank()),
      size_(dist.ranks == nullptr ? 1 : dist.ranks->size()),
      index_(shapes_of(trainables)),
      owned_(index_, size_),
      held_(index_, dist.level == 0 ? 1 : size_),
      holder_(dist.level == 0 ? 0 : rank_),
      whole_(index_.buckets().size()),
      counts_(index_.tensors().size()),
      has_gradient_(index_.tensors().size()) {
  for (const auto& trainable : trainables) {
    for (const Parameter& parameter : trainable->parameters()) weights_.push_back(parameter.master);
  }
  if (dist_.ranks != nullptr && dist_.level > 0) {
    incoming_ = std::make_shared<IncomingBuckets>(
        index_, weights_,
        [this](int64_t bucket, const at::Tensor& buffer) { take_weights(bucket, buffer); });
  }
  for (const auto& trainable : trainables) {
    const bool awaits = incoming_ && trainable->await_before_reading(incoming_);
    for (size_t i = 0; i < trainable->parameters().size(); ++i) {
      owners_.push_back({trainable.get(), i, awaits});
    }
  }
  find_held_pieces();
  if (dist_.ranks != nullptr) {
    exchange_ = std::make_unique<GradientExchange>(index_, owned_, weights_, dist_, incoming_);
  }
}

void AdamWState::find_held_pieces() {
  for (int64_t t = 0; t < static_cast<int64_t>(index_.tensors().size()); ++t) {
    const FlatTensor& flat = index_.tensors()[static_cast<size_t>(t)];
    // A tensor may begin in one rank's range and end in the next one's.
    const int64_t range = held_.begin(flat.bucket, holder_);
    const int64_t begin = std::max(flat.offset, range);
    const int64_t end = std::min(flat.offset + flat.elements, held_.end(flat.bucket, holder_));
    if (begin >= end) continue;  // outside this rank's range
    pieces_.push_back({t, flat.bucket, begin - flat.offset, end - begin, begin - range});
    // Throws now, not at the first step, if the rank holds another range of the weight.
    flat_weight(t, begin - flat.offset, end - begin);
  }
}

// Models keep incoming_, whose gathers write through this object.
AdamWState::~AdamWState() {
  if (incoming_) incoming_->queue().close();
}

AdamWState::Buffers AdamWState::zeros() const {
  Buffers buffers;
  const auto buckets = static_cast<int64_t>(index_.buckets().size());
  for (int64_t b = 0; b < buckets; ++b) {
    const auto first = static_cast<size_t>(index_.buckets()[static_cast<size_t>(b)].first_tensor);
    const auto options = weights_[first].options().requires_grad(false);
    buffers.push_back(at::zeros({held_.size(b, holder_)}, options));
  }
  return buffers;
}

void AdamWState::make_moments() {
  // Not in the constructor: an optimizer that never steps needs no moments.
  if (has_moments()) return;
  exp_avg_ = zeros();
  exp_avg_sq_ = zeros();
}

void AdamWState::each(const Buffers& state, const EachRange& f) const {
  for (const HeldRange& held : pieces_) {
    f(flat_weight(held.tensor, held.begin, held.size),
      state[static_cast<size_t>(held.bucket)].narrow(0, held.at, held.size));
  }
}

void AdamWState::share_weights() {
  if (incoming_) gather_weights();
}

void AdamWState::abandon_shared() {
  if (exchange_) exchange_->abandon();
  if (incoming_) incoming_->queue().abandon();
}

void AdamWState::share_again() {
  share_weights();
  if (incoming_) incoming_->await_all();
}

at::Tensor AdamWState::flat_weight(int64_t tensor, int64_t begin, int64_t size) const {
  const WeightOwner& owner = owners_[static_cast<size_t>(tensor)];
  return owner.trainable->held_master(owner.parameter, begin, size);
}

bool AdamWState::has_gradient(int64_t tensor) const {
  if (exchange_) return has_gradient_[static_cast<size_t>(tensor)];
  return weights_[static_cast<size_t>(tensor)].grad().defined();
}

at::Tensor AdamWState::gradient_of(const HeldRange& held) {
  if (!exchange_) {
    // The kernel walks flat memory.
    return weights_[static_cast<size_t>(held.tensor)].grad().contiguous().view({-1});
  }
  const at::Tensor& sum =
      // Level 0 updates every weight and needs the whole sum.
      dist_.level == 0 ? whole_[static_cast<size_t>(held.bucket)] : exchange_->sum(held.bucket);
  return sum.narrow(0, held.at, held.size);
}

std::vector<double> AdamWState::own_sums_of_squares() const {
  const auto buckets = static_cast<int64_t>(index_.buckets().size());
  std::vector<double> sums;
  std::vector<GradientSlice> slices;
  std::vector<size_t> position;  // by slice: its index in `sums`
  for (int64_t b = 0; b < buckets; ++b) {
    for (int64_t c = owned_.first_slice(b, rank_); c < owned_.end_slice(b, rank_); ++c) {
      const FlatSlice& slice = index_.slices()[static_cast<size_t>(c)];
      // Tells the other ranks that this weight got no gradient.
      sums.push_back(kNoGradient);
      if (!exchange_->has_gradient(slice.tensor)) continue;
      const int64_t size = slice.end - slice.begin;
      const at::Tensor values =
          exchange_->sum(b).narrow(0, index_.slice_offset(c) - owned_.begin(b, rank_), size);
      if (values.device().is_cpu()) {
        slices.push_back({values.const_data_ptr<float>(), size});
        position.push_back(sums.size() - 1);
      } else {
        sums.back() =
            at::linalg_vector_norm(values, 2, {}, false, at::kDouble).square().item<double>();
      }
    }
  }
  // All slices at once, since starting threads for each small one would be slow.
  const std::vector<double> found = sums_of_squares(slices);
  for (size_t i = 0; i < found.size(); ++i) sums[position[i]] = found[i];
  return sums;
}

// Each rank sends the sums of its slices, and every rank adds up all sums in the order of the
// index.
double AdamWState::squares() {
  const std::vector<double> own = own_sums_of_squares();
  const std::string bytes(reinterpret_cast<const char*>(own.data()), own.size() * sizeof(double));
  const std::vector<std::string> all = dist_.ranks->gather("squares of gradients", bytes);
  // Slices do not depend on the number of ranks, so neither does the total.
  std::vector<double> sums(index_.slices().size());
  for (int64_t r = 0; r < size_; ++r) {
    const std::string& from = all[static_cast<size_t>(r)];
    size_t at = 0;
    for (int64_t b = 0; b < static_cast<int64_t>(index_.buckets().size()); ++b) {
      const int64_t first = owned_.first_slice(b, r), end = owned_.end_slice(b, r);
      const size_t size = static_cast<size_t>(end - first) * sizeof(double);
      XRUN_CHECK(at + size <= from.size(), "rank {} sent {} bytes of sums of squares, wanted {}", r,
                 from.size(), at + size);
      std::memcpy(sums.data() + first, from.data() + at, size);
      at += size;
    }
  }
  double total = 0;
  for (size_t t = 0; t < index_.tensors().size(); ++t) {
    const FlatTensor& flat = index_.tensors()[t];
    const auto first = static_cast<size_t>(flat.first_slice);
    has_gradient_[t] = flat.slice_count > 0 && sums[first] != kNoGradient;
    if (!has_gradient_[t]) continue;
    // One process sums by weight first, so this must as well.
    double sum = 0;
    for (size_t c = first; c < first + static_cast<size_t>(flat.slice_count); ++c) sum += sums[c];
    total += sum;
  }
  return total;
}

void AdamWState::update(const Factors& factors) {
  const at::NoGradGuard no_grad;
  if (dist_.level == 0 && exchange_) gather_gradients();
  updating_ = true;
  for (size_t t = 0; t < counts_.size(); ++t) {
    // A weight without a gradient is neither decayed nor counted.
    if (has_gradient(static_cast<int64_t>(t))) ++counts_[t];
  }
  ElementRuns runs;
  // CPU weights are updated together, since starting threads for each small one would be slow.
  std::vector<UpdateRun> updates;
  for (const HeldRange& held : pieces_) {
    const auto t = static_cast<size_t>(held.tensor), b = static_cast<size_t>(held.bucket);
    if (!has_gradient(held.tensor)) continue;
    const at::Tensor gradient = gradient_of(held);
    const kernels::AdamWFactors f = factors(counts_[t], weights_[t].dim());
    at::Tensor weight = flat_weight(held.tensor, held.begin, held.size);
    at::Tensor mean = exp_avg_[b].narrow(0, held.at, held.size);
    at::Tensor square = exp_avg_sq_[b].narrow(0, held.at, held.size);
    if (!weight.device().is_cpu()) {
      update_by_ops(weight, gradient, mean, square, f);
      continue;
    }
    const UpdateRun update{weight.mutable_data_ptr<float>(), gradient.const_data_ptr<float>(),
                           mean.mutable_data_ptr<float>(), square.mutable_data_ptr<float>(), f};
    if (exchange_ || weights_[t].grad().is_contiguous()) {
      runs.add(held.size);
      updates.push_back(update);
    } else {
      // Updated now: keeping the contiguous copies of all gradients would double their memory.
      ElementRuns one;
      one.add(held.size);
      one.each_part([&](size_t, int64_t begin, int64_t end) { apply(update, begin, end); });
    }
  }
  runs.each_part([&](size_t i, int64_t begin, int64_t end) { apply(updates[i], begin, end); });
  share_weights();
}

std::vector<NamedTensor> AdamWState::gradients() {
  const at::NoGradGuard no_grad;
  squares();  // tells every rank which weights have a gradient
  gather_gradients();
  std::vector<NamedTensor> out;
  for (size_t t = 0; t < index_.tensors().size(); ++t) {
    const FlatTensor& flat = index_.tensors()[t];
    if (!has_gradient_[t]) continue;
    out.push_back({flat.name, whole_[static_cast<size_t>(flat.bucket)]
                                  .narrow(0, flat.offset, flat.elements)
                                  .view(flat.shape)
                                  // A copy: the gathered buffer is freed below.
                                  .clone()});
  }
  for (at::Tensor& gathered : whole_) gathered.reset();
  return out;
}

void AdamWState::clear_gradients() {
  if (exchange_) exchange_->clear();
  for (at::Tensor& gathered : whole_) gathered.reset();
}

AdamWState::NamedBuffers AdamWState::moments() const {
  return {{"exp_avg.", &exp_avg_}, {"exp_avg_sq.", &exp_avg_sq_}};
}

std::vector<NamedTensor> AdamWState::tensors(const NamedBuffers& of) const {
  std::vector<NamedTensor> out;
  for (const FlatTensor& flat : index_.tensors()) {
    const auto b = static_cast<size_t>(flat.bucket);
    for (const auto& [prefix, buffers] : of) {
      if (buffers->empty()) continue;
      out.push_back({prefix + flat.name,
                     (*buffers)[b].narrow(0, flat.offset, flat.elements).view(flat.shape)});
    }
  }
  return out;
}

std::vector<TensorRange> AdamWState::ranges(const NamedBuffers& of) const {
  std::vector<TensorRange> out;
  size_t next = 0;
  for (size_t t = 0; t < index_.tensors().size(); ++t) {
    const FlatTensor& flat = index_.tensors()[t];
    const auto b = static_cast<size_t>(flat.bucket);
    HeldRange held{.tensor = static_cast<int64_t>(t), .bucket = flat.bucket};
    // pieces_ is in the order of the index; a tensor of other ranks has an empty range here.
    if (next < pieces_.size() && pieces_[next].tensor == held.tensor) held = pieces_[next++];
    for (const auto& [prefix, buffers] : of) {
      if (buffers->empty()) continue;
      out.push_back({prefix + flat.name, flat.shape, held.begin,
                     (*buffers)[b].narrow(0, held.at, held.size)});
    }
  }
  return out;
}

void AdamWState::restore(const TensorSource& saved, const NamedBuffers& into) {
  const at::NoGradGuard no_grad;
  for (const HeldRange& held : pieces_) {
    const FlatTensor& flat = index_.tensors()[static_cast<size_t>(held.tensor)];
    const auto b = static_cast<size_t>(held.bucket);
    for (const auto& [prefix, buffers] : into) {
      // Read one at a time: the whole optimizer state is twice the weights.
      (*buffers)[b]
          .narrow(0, held.at, held.size)
          .copy_(saved.range(prefix + flat.name, flat.shape, held.begin, held.size));
    }
  }
}

}  // namespace xrun

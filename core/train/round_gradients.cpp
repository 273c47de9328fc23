// sum = ((g0 + g1) + g2) + ... over items: autograd's own order in one process. Across ranks the
// elements of all parameters, laid end to end, are divided into one range a rank; its owner adds
// what the ranks send, in rank order, round by round.

#include "core/train/round_gradients.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/dist/agreement.h"
#include "core/dist/ranks.h"
#include "core/model/model.h"
#include "core/train/adamw.h"

namespace xrun {

RoundGradients::RoundGradients(AdamW& adamw, Ranks* ranks, bool several_passes)
    : adamw_(adamw), ranks_(ranks), by_item_(ranks != nullptr || several_passes) {
  if (!by_item_) return;
  int64_t total = 0;
  for (const auto& trainable : adamw_.trainables()) {
    for (const Parameter& parameter : trainable->parameters()) {
      masters_.push_back(parameter.master);
      total += parameter.master.numel();
    }
  }
  present_.resize(masters_.size(), 0);
  if (ranks_ == nullptr) {
    sums_.resize(masters_.size());
    return;
  }
  const int64_t size = ranks_->size();
  ranges_.resize(static_cast<size_t>(size));
  for (int64_t owner = 0; owner < size; ++owner) {
    const int64_t begin = total * owner / size, end = total * (owner + 1) / size;
    int64_t at = 0;
    for (size_t p = 0; p < masters_.size(); at += masters_[p++].numel()) {
      const int64_t from = std::max(begin, at), to = std::min(end, at + masters_[p].numel());
      if (from < to) ranges_[static_cast<size_t>(owner)].push_back({p, from - at, to - at});
    }
  }
  sums_.resize(ranges_[static_cast<size_t>(ranks_->rank())].size());
}

void RoundGradients::end_round(const std::exception_ptr& failure) {
  const int64_t round = round_++;
  if (ranks_ == nullptr) {
    if (failure) std::rethrow_exception(failure);
    if (by_item_) keep_item();
    return;
  }
  const at::NoGradGuard no_grad;
  const std::string label = fmt::format("round {} of the step", round);
  const std::vector<std::string> messages = gather_results(ranks_, label, [&] {
    if (failure) std::rethrow_exception(failure);
    std::string own;
    for (const at::Tensor& master : masters_) own += master.grad().defined() ? '1' : '0';
    return own;
  });
  std::vector<Presence> present;
  for (const std::string& message : messages) {
    XRUN_CHECK(message.size() == masters_.size(),
               "this rank trains {} weights, another one {}: their recipes differ",
               masters_.size(), message.size());
    Presence& of = present.emplace_back();
    for (const char c : message) of.push_back(c == '1' ? 1 : 0);
  }
  exchange_item(present);
}

void RoundGradients::keep_item() {
  const at::NoGradGuard no_grad;
  for (size_t p = 0; p < masters_.size(); ++p) {
    at::Tensor& gradient = masters_[p].mutable_grad();
    if (!gradient.defined()) continue;
    present_[p] = 1;
    if (sums_[p].defined()) {
      sums_[p].add_(gradient);
    } else {
      sums_[p] = gradient;
    }
    gradient.reset();
  }
}

int64_t RoundGradients::elements(size_t owner, const Presence& present) const {
  int64_t count = 0;
  for (const Piece& piece : ranges_[owner]) {
    if (present[piece.parameter] != 0) count += piece.end - piece.begin;
  }
  return count;
}

// A gradient that a rank does not have is not sent: adding 0 would turn -0 into 0.
void RoundGradients::exchange_item(const std::vector<Presence>& present) {
  const auto own = static_cast<size_t>(ranks_->rank());
  std::vector<int64_t> in_sizes, out_sizes;
  std::vector<at::Tensor> pieces;
  int64_t arriving = 0;
  for (size_t other = 0; other < ranges_.size(); ++other) {
    in_sizes.push_back(elements(other, present[own]));
    out_sizes.push_back(elements(own, present[other]));
    arriving += out_sizes.back();
    for (const Piece& piece : ranges_[other]) {
      if (present[own][piece.parameter] == 0) continue;
      pieces.push_back(
          masters_[piece.parameter].grad().reshape({-1}).slice(0, piece.begin, piece.end));
    }
  }
  const auto options = masters_.front().options().requires_grad(false);
  const at::Tensor in = pieces.empty() ? at::empty({0}, options) : at::cat(pieces);
  const at::Tensor out = at::empty({arriving}, options);
  adamw_.clear_gradients();
  ranks_->exchange("gradients", out, out_sizes, in, in_sizes)->wait();
  int64_t at = 0;
  for (const Presence& of : present) {
    for (size_t p = 0; p < of.size(); ++p) present_[p] |= of[p];
    for (size_t i = 0; i < sums_.size(); ++i) {
      const Piece& piece = ranges_[own][i];
      if (of[piece.parameter] == 0) continue;
      const at::Tensor arrived = out.slice(0, at, at + piece.end - piece.begin);
      at += piece.end - piece.begin;
      if (sums_[i].defined()) {
        sums_[i].add_(arrived);
      } else {
        sums_[i] = arrived.clone();
      }
    }
  }
}

void RoundGradients::finish() {
  if (!by_item_) return;
  const at::NoGradGuard no_grad;
  if (ranks_ == nullptr) {
    for (size_t p = 0; p < masters_.size(); ++p) masters_[p].mutable_grad() = sums_[p];
    return;
  }
  std::vector<int64_t> sizes;
  int64_t total = 0;
  for (size_t owner = 0; owner < ranges_.size(); ++owner) {
    sizes.push_back(elements(owner, present_));
    total += sizes.back();
  }
  if (total == 0) return;
  const auto options = masters_.front().options().requires_grad(false);
  std::vector<at::Tensor> defined;
  for (const at::Tensor& sum : sums_) {
    if (sum.defined()) defined.push_back(sum);
  }
  const at::Tensor in = defined.empty() ? at::empty({0}, options) : at::cat(defined);
  const at::Tensor out = at::empty({total}, options);
  ranks_->all_gather("sums of gradients", out, sizes, in)->wait();
  int64_t at = 0;
  for (size_t p = 0; p < masters_.size(); ++p) {
    if (present_[p] == 0) continue;
    masters_[p].mutable_grad() =
        out.slice(0, at, at + masters_[p].numel()).view(masters_[p].sizes());
    at += masters_[p].numel();
  }
}

}  // namespace xrun

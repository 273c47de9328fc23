// log p = -4 u,  u = Philox(seed ^ hash(model), row and side, token) in [0, 1): a function of the
// row and not of its pack, so that packing, micro-batching and order change no value.

#include "core/train/models/logprob_stand_in.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/stack.h>
#include <fmt/core.h>

#include <vector>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/philox.h"
#include "core/train/batches/batch.h"

namespace xrun {

namespace {

constexpr double kLowest = -4;        // a plausible range for the log-prob of a token
constexpr int64_t kLogitColumns = 4;  // few, so that only the logits themselves are [r, vocab]

}  // namespace

LogprobStandIn::StandInValues LogprobStandIn::seeded(uint64_t seed) {
  return [seed](MicroBatch& micro, const std::string& model) {
    const PackedBatch& pack = micro.pack();
    const uint64_t own = seed ^ hash_u64(model);
    at::Tensor out = at::empty({micro.row_count()}, at::kDouble);
    double* const values = out.data_ptr<double>();
    int32_t segment = -1;
    uint64_t token = 0;
    for (int64_t r = 0; r < micro.row_count(); ++r) {
      const int32_t own_segment = pack.rows.segment[static_cast<size_t>(r)];
      // Loss rows of a segment are adjacent, so the token's number restarts with each segment.
      token = own_segment == segment ? token + 1 : 0;
      segment = own_segment;
      const auto s = static_cast<size_t>(segment);
      // side is -1, 0 or 1: shifted, so that chosen and rejected of one row differ.
      const auto side = static_cast<uint64_t>(pack.side.empty() ? 1 : pack.side[s] + 1);
      const auto row = static_cast<uint64_t>(pack.row_id[s]);
      values[r] = kLowest * philox_unit(own, kStreamStandIn, row * 4 + side, token);
    }
    return out;
  };
}

LogprobStandIn::LogprobStandIn(StandInValues source, c10::ScalarType dtype)
    : source_(std::move(source)), dtype_(dtype) {}

std::vector<at::Tensor> LogprobStandIn::leaves_of(const MicroBatch& micro) const {
  std::vector<at::Tensor> own;
  for (const auto& [of, leaf] : leaves_) {
    if (of.second == &micro) own.push_back(leaf);
  }
  return own;
}

void LogprobStandIn::clear() {
  known_.clear();
  leaves_.clear();
}

at::Tensor LogprobStandIn::values(MicroBatch& micro, const std::string& model) {
  MicroValues& known = known_[{model, &micro}];
  // A new micro-batch may have the address of one that is gone.
  if (known.micro.lock().get() != &micro) {
    const at::NoGradGuard no_grad;
    known = {micro.weak_from_this(), source_(micro, model).detach().to(micro.device(), dtype_)};
    // The leaf belongs to the micro-batch that is gone; its gradient would be read as this one's.
    leaves_.erase({model, &micro});
  }
  return known.values;
}

at::Tensor LogprobStandIn::token_logprob(const View& view, const std::string& model, bool trained) {
  MicroBatch& micro = view.micro();
  const at::Tensor own = values(micro, model);
  if (!trained) return view.select_rows(own);
  const auto known = leaves_.find({model, &micro});
  // An evaluation makes no leaf, but sees the values that a check has moved.
  if (!at::GradMode::is_enabled()) {
    return view.select_rows(known == leaves_.end() ? own : known->second.detach());
  }
  if (known != leaves_.end()) return view.select_rows(known->second);
  // One leaf per model and micro-batch: all views share it, so its gradient is the whole one.
  return view.select_rows(leaves_[{model, &micro}] = own.clone().requires_grad_());
}

ModelStandIn::ModelStandIn(std::shared_ptr<LogprobStandIn> values, std::string name,
                           std::function<bool()> trained, int64_t vocab,
                           std::function<void(const MicroBatch&)> check)
    : values_(std::move(values)),
      name_(std::move(name)),
      trained_(std::move(trained)),
      vocab_(vocab),
      check_(std::move(check)) {}

Model& ModelStandIn::own_model() {
  throw Error("this needs the model's weights; a dry run has stand-ins for log-probs only");
}

at::Tensor ModelStandIn::values(const View& view, const std::string& what) {
  if (check_) check_(view.micro());
  return values_->token_logprob(view, name_ + what, trained_());
}

at::Tensor ModelStandIn::own_token_logprob(const View& view) { return values(view, ""); }

at::Tensor ModelStandIn::own_logprob(const View& view) { return view.sum(values(view, "")); }

HeadResult ModelStandIn::own_head(const View& view, const HeadOptions& options,
                                  const at::Tensor& target) {
  HeadResult result;
  if (target.defined() && target.dim() == 2) {
    std::vector<at::Tensor> columns;
    for (int64_t m = 0; m < target.size(1); ++m) {
      columns.push_back(values(view, fmt::format(" target {}", m)));
    }
    // [R, M]: a different value per target, as a head with several targets gives.
    result.logprob = at::stack(columns, 1);
  } else {
    result.logprob = values(view, target.defined() ? " target" : "");
  }
  // -log p is in [0, 4], a range that an entropy may have.
  if (options.entropy) result.entropy = values(view, " entropy").neg();
  if (options.lse) result.lse = values(view, " lse").neg();
  if (options.top_k == 0) return result;
  std::vector<at::Tensor> best, ids;
  for (int64_t k = 0; k < options.top_k; ++k) {
    const at::Tensor one =
        values(view, fmt::format(" top {}", k)).mul(0.1).sub(static_cast<double>(k));
    best.push_back(one);  // in [-0.4 - k, -k]: falling
    ids.push_back(at::full_like(one, k, one.options().dtype(at::kLong).requires_grad(false)));
  }
  result.top_logprob = at::stack(best, 1);
  result.top_id = at::stack(ids, 1);
  return result;
}

at::Tensor ModelStandIn::own_logits(const View& view) {
  const at::Tensor logprob = values(view, "");
  std::vector<at::Tensor> columns;
  for (int64_t k = 0; k < kLogitColumns; ++k) {
    columns.push_back(values(view, fmt::format(" logits {}", k)));
  }
  at::Tensor weight = at::empty({kLogitColumns, vocab_}, at::kDouble);
  double* const w = weight.mutable_data_ptr<double>();
  // Small, so that the target's own logit decides in which direction a loss moves.
  for (int64_t i = 0; i < weight.numel(); ++i) {
    w[i] = 0.5 * philox_unit(0, kStreamStandIn, 2, static_cast<uint64_t>(i)) - 0.25;
  }
  const at::Tensor target = view.select_rows(view.micro().row_target()).unsqueeze(1);
  return at::matmul(at::stack(columns, 1), weight.to(logprob.device(), logprob.scalar_type()))
      .scatter_add(1, target, logprob.unsqueeze(1));
}

at::Tensor ModelStandIn::own_score(const View& view, const ScoreWeight&) {
  return view.mean(values(view, " score"));
}

}  // namespace xrun

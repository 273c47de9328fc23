#include "core/train/logprob_stand_in.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <vector>

#include "core/base/hash.h"
#include "core/base/philox.h"
#include "core/train/batch.h"

namespace xrun {

namespace {

constexpr double kLowest = -4;

}  // namespace

LogprobStandIn::Source LogprobStandIn::seeded(uint64_t seed) {
  return [seed](MicroBatch& micro, const std::string& model) {
    const PackedBatch& pack = micro.pack();
    const uint64_t own = seed ^ hash_u64(model);
    at::Tensor out = at::empty({micro.row_count()}, at::kDouble);
    double* const values = out.data_ptr<double>();
    int32_t segment = -1;
    uint64_t place = 0;
    for (int64_t r = 0; r < micro.row_count(); ++r) {
      const int32_t own_segment = pack.rows.segment[static_cast<size_t>(r)];
      place = own_segment == segment ? place + 1 : 0;
      segment = own_segment;
      const auto s = static_cast<size_t>(segment);
      const auto side = static_cast<uint64_t>(pack.side.empty() ? 1 : pack.side[s] + 1);
      const auto row = static_cast<uint64_t>(pack.row_id[s]);
      values[r] = kLowest * philox_unit(own, kStreamStandIn, row * 4 + side, place);
    }
    return out;
  };
}

LogprobStandIn::LogprobStandIn(Source source, c10::ScalarType dtype)
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
  Known& known = known_[{model, &micro}];
  if (known.micro.lock().get() != &micro) {
    const at::NoGradGuard no_grad;
    known = {micro.weak_from_this(), source_(micro, model).detach().to(micro.device(), dtype_)};
    leaves_.erase({model, &micro});
  }
  return known.values;
}

at::Tensor LogprobStandIn::token_logprob(const View& view, const std::string& model, bool trained) {
  MicroBatch& micro = view.micro();
  const at::Tensor own = values(micro, model);
  if (!trained) return view.select_rows(own);
  const auto known = leaves_.find({model, &micro});
  if (!at::GradMode::is_enabled()) {  // an evaluation makes no leaf, and sees one that was moved
    return view.select_rows(known == leaves_.end() ? own : known->second.detach());
  }
  if (known != leaves_.end()) return view.select_rows(known->second);
  return view.select_rows(leaves_[{model, &micro}] = own.clone().requires_grad_());
}

at::Tensor LogprobStandIn::logprob(const View& view, const std::string& model, bool trained) {
  return view.sum(token_logprob(view, model, trained));
}

at::Tensor LogprobStandIn::token_logprob(Batch& batch, const std::string& model) {
  std::vector<at::Tensor> parts;
  for (const auto& micro : batch.micros()) {
    parts.push_back(token_logprob(micro->all(), model, false));
  }
  return batch.in_batch_order(parts, /*by_row=*/true);
}

at::Tensor LogprobStandIn::logprob(Batch& batch, const std::string& model) {
  std::vector<at::Tensor> parts;
  for (const auto& micro : batch.micros()) parts.push_back(logprob(micro->all(), model, false));
  return batch.in_batch_order(parts, /*by_row=*/false);
}

}  // namespace xrun

// score = hidden[last token of the sequence] . w, in fp32; w starts at 0, so every score does.

#include "core/train/models/scorer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include "core/model/model.h"
#include "core/train/batches/batch.h"
#include "core/train/batches/whole_batch.h"
#include "core/train/models/policy.h"

namespace xrun {
namespace {

constexpr const char* kName = "score.weight";  // as classifiers of transformers call it

}  // namespace

Scorer::Scorer(std::shared_ptr<Policy> policy) : policy_(std::move(policy)) {}

at::Tensor& Scorer::weight() {
  if (!weight_.defined()) {
    // Made at the first use, since the policy's weights load late too.
    const int64_t width = policy_->model().config().hidden;
    const auto floats = at::dtype(at::kFloat).device(policy_->options().device);
    weight_ = at::zeros({1, width}, floats).requires_grad_(true);
  }
  return weight_;
}

at::Tensor Scorer::score(const View& view) {
  return policy_->score(view, [this]() -> const at::Tensor& { return weight(); });
}

at::Tensor Scorer::score(Batch& batch) {
  const at::NoGradGuard no_grad;
  const auto parts = score_micros_once(batch, "scores", [this](MicroBatch& micro) {
    const at::Tensor scores = score(micro.all());
    micro.free_hidden();  // those of a whole batch may not fit into memory
    return scores;
  });
  return batch.in_batch_order(parts, /*by_row=*/false);
}

std::vector<Parameter>& Scorer::parameters() {
  if (parameters_.empty()) {
    parameters_ = policy_->parameters();
    // Last, so that the policy's weights keep their indices in the optimizer.
    parameters_.push_back({kName, weight()});
  }
  return parameters_;
}

bool Scorer::loaded() const { return policy_->loaded(); }

bool Scorer::is_head(size_t parameter) { return parameter + 1 == parameters().size(); }

at::Tensor Scorer::held_master(size_t parameter, int64_t begin, int64_t size) {
  if (!is_head(parameter)) return policy_->held_master(parameter, begin, size);
  return weight().detach().view({-1}).narrow(0, begin, size);
}

bool Scorer::holds_ranges(size_t parameter) {
  return !is_head(parameter) && policy_->holds_ranges(parameter);
}

void Scorer::count_update() { policy_->count_update(); }

void Scorer::weights_averaged(bool averaged) { policy_->weights_averaged(averaged); }

std::vector<NamedTensor> Scorer::tensors() const {
  std::vector<NamedTensor> out = policy_->tensors();
  if (weight_.defined()) out.push_back({kName, weight_.detach()});
  return out;
}

std::vector<TensorRange> Scorer::ranges() const { return policy_->ranges(); }

Json Scorer::state() const {
  Json state = policy_->state();
  // A scorer that was never asked has no weight to restore.
  state.set("scored", weight_.defined());
  return state;
}

void Scorer::restore(const TensorSource& tensor, const Json& state) {
  policy_->restore(tensor, state);
  if (!state.at("scored").as_bool()) return;
  const at::Tensor saved = tensor(kName);
  const at::NoGradGuard no_grad;
  check_saved_shape(kName, saved.sizes(), weight().sizes());
  weight().detach().copy_(saved);
}

void Scorer::export_to(const std::filesystem::path& out) {
  policy_->export_classifier_to(out, weight());
}

}  // namespace xrun

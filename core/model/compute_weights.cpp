// A copy is stale once the update count has changed.

#include "core/model/compute_weights.h"

#include <torch/csrc/autograd/custom_function.h>

#include "core/model/model.h"

namespace xrun {

namespace {

// Forward: the existing copy. Backward: the gradient in the master's type.
class WeightCopyFunction : public torch::autograd::Function<WeightCopyFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& master,
                            const at::Tensor& copy) {
    at::AutoDispatchBelowADInplaceOrView below;
    ctx->saved_data["type"] = master.scalar_type();
    return copy.detach();
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    return {grads[0].to(ctx->saved_data["type"].toScalarType()), {}};
  }
};

}  // namespace

ComputeWeights::ComputeWeights(const std::vector<Parameter>& masters, at::ScalarType compute)
    : masters_(masters), compute_(compute), copies_(masters.size()) {}

at::Tensor ComputeWeights::get(size_t index, int64_t update_count) {
  const at::Tensor& master = masters_[index].master;
  if (master.scalar_type() == compute_) return master;
  WeightCopy& copy = copies_[index];
  if (copy.update_count != update_count || !copy.tensor.defined()) {
    // a new tensor, since a graph may still hold the old copy
    copy.tensor = master.detach().to(compute_);
    copy.update_count = update_count;
  }
  if (!at::GradMode::is_enabled() || !master.requires_grad()) return copy.tensor;
  return WeightCopyFunction::apply(master, copy.tensor);
}

}  // namespace xrun

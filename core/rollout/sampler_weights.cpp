// A product with few rows spends much of its time on transposing the weight. Packed weights are
// transposed already; packing them costs about as much as the transposes of two steps, and memory
// that is touched for the first time, so short answers do without.

#include "core/rollout/sampler_weights.h"

#include "core/model/model.h"
#include "core/model/ops/matrix_product.h"
#include "core/model/ops/scratch.h"
#include "core/rollout/sampler_limits.h"

namespace xrun {

bool SamplerWeights::refresh() {
  if (version_ == model_.update_count) return false;
  version_ = model_.update_count;
  steps_ = 0;
  head_ = model_.head_weight().to(at::kFloat).contiguous();
  return true;
}

void SamplerWeights::count_step() {
  if (++steps_ <= kUnpackedSteps || refused_ || packed() != nullptr) return;
  model_.pack(packed_);
  refused_ = packed() == nullptr;
  if (refused_) return;
  ++times_packed_;
  head_ = at::Tensor();  // the packed one serves
}

at::Tensor SamplerWeights::forward(const PackInput& input, KvCache& cache,
                                   std::vector<at::Tensor>* routes) {
  return model_.forward_cached(input, cache, packed(), routes);
}

at::Tensor SamplerWeights::logits(const at::Tensor& hidden) const {
  const PackedMatrix* const head = packed() == nullptr ? nullptr : model_.packed_head(packed_);
  const int64_t n = hidden.size(0), vocab = head != nullptr ? head->rows : head_.size(0);
  const at::Tensor logits = scratch_floats(n * vocab).view({n, vocab});
  const at::Tensor rows = hidden.to(at::kFloat);
  if (head != nullptr) {
    multiply_rows_into(logits, rows, *head);
  } else {
    multiply_rows_into(logits, rows, head_);
  }
  return logits;
}

}  // namespace xrun

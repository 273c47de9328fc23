// x = embed(tokens), plus learned positions; x = block(x) per layer; hidden = norm(x).

#include "core/model/decoder.h"

#include <ATen/ops/embedding.h>

#include "core/model/block.h"
#include "core/model/kv_cache.h"
#include "core/model/model.h"

namespace xrun {

Decoder::Decoder(const ModelConfig& config, const std::vector<Parameter>& parameters,
                 const LoadOptions& options)
    : config_(config),
      weights_(parameters, options.dtype),
      places_(weight_places(config, parameters)),
      compute_(options.dtype),
      gemm_(options.gemm) {}

at::Tensor Decoder::embed(const Pass& pass, const PackInput& input) const {
  const at::Tensor x = at::embedding(pass.weight(places_.embedding.weight), input.tokens);
  if (config_.positions != Positions::kLearned) return x;
  return x.add(at::embedding(pass.weight(places_.positions.weight), input.position_ids));
}

at::Tensor Decoder::forward(const PackInput& input, int64_t update_count,
                            const ForwardOptions& options, KvCache* cache) {
  Pass pass{.config = config_,
            .weights = weights_,
            .update_count = update_count,
            .cu_seqlens = {input.cu_seqlens.begin(), input.cu_seqlens.end()},
            .cache = cache,
            .gemm = gemm_,
            .router = options.router};
  if (config_.positions == Positions::kRotary) {
    pass.angles =
        rope_angles(config_.rope, config_.head_dim, input.position_ids, pass.cu_seqlens, compute_);
  }
  at::Tensor x = embed(pass, input);
  for (size_t i = 0; i < places_.blocks.size(); ++i) {
    x = block(pass, places_.blocks[i], static_cast<int64_t>(i), x);
  }
  if (cache != nullptr) cache->advance(pass.cu_seqlens);
  return pass.norm(places_.final_norm, x);
}

at::Tensor Decoder::head_weight(int64_t update_count) {
  return weights_.get(static_cast<size_t>(places_.head.weight), update_count);
}

}  // namespace xrun

// x = embed(tokens), plus learned positions; x = block(x) per layer; hidden = norm(x).

#include "core/model/decoder.h"

#include <ATen/ops/embedding.h>

#include "core/base/interrupt.h"
#include "core/model/block.h"
#include "core/model/kv_cache.h"
#include "core/model/model.h"
#include "core/model/ops/device.h"
#include "core/model/ops/moe_routing.h"
#include "core/model/recompute.h"

namespace xrun {

namespace {

// Router statistics are outputs beside the hidden states: the balance loss needs their graph, and a
// recomputed block has gradients for its outputs only.
at::Tensor recomputed_block(const ForwardState& state, const BlockIndex& index, int64_t layer,
                            const at::Tensor& x) {
  const auto run = [state, &index, layer](const at::Tensor& in) {
    ForwardState inner = state;
    RouterRecord seen;
    if (state.router != nullptr) inner.router = &seen;
    std::vector<at::Tensor> out{block(inner, index, layer, in)};
    for (const RouterRecord::Layer& one : seen.layers) {
      out.insert(out.end(), {one.prob_sum, one.count});
    }
    return out;
  };
  const std::vector<at::Tensor> out = recomputed(run, x);
  if (out.size() > 1) {
    state.router->layers.push_back({.count = out[2].detach(), .prob_sum = out[1]});
    state.router->tokens = state.multiplicity.defined()
                               ? state.multiplicity.sum().item<int64_t>()
                               : x.size(0);
    state.router->top_k = state.config.moe.top_k;
  }
  return out[0];
}

}  // namespace

Decoder::Decoder(const ModelConfig& config, const std::vector<Parameter>& parameters,
                 const LoadOptions& options)
    : config_(config),
      weights_(parameters, options.dtype),
      index_(decoder_index(config, parameters)),
      options_(options) {}

at::Tensor Decoder::embed(const ForwardState& state, const PackInput& input) const {
  const at::Tensor x = at::embedding(state.weight(index_.embedding.weight),
                                     on_device(input.tokens, options_.device));
  if (config_.positions != Positions::kLearned) return x;
  return x.add(at::embedding(state.weight(index_.positions.weight),
                             on_device(input.position_ids, options_.device)));
}

at::Tensor Decoder::forward(const PackInput& input, int64_t update_count,
                            const ForwardOptions& options, KvCache* cache) {
  ForwardState state{.config = config_,
                     .weights = weights_,
                     .update_count = update_count,
                     .layout = {.cu_seqlens = {input.cu_seqlens.begin(), input.cu_seqlens.end()},
                                .parent = {input.parent.begin(), input.parent.end()}},
                     .cache = cache,
                     .gemm = options_.gemm,
                     .router = options.router,
                     .multiplicity = options.multiplicity,
                     .adapter = options_.adapter.get(),
                     .dropout = options.dropout};
  if (config_.positions == Positions::kRotary) {
    state.angles =
        rope_angles(config_.rope, config_.head_dim, input.position_ids, state.layout.cu_seqlens,
                    options_.dtype, options_.device, input.rope_length);
  }
  at::Tensor x = embed(state, input);
  // A frozen model records no graph, so it has nothing to recompute.
  const bool recompute = options_.recompute && options_.trainable;
  for (size_t i = 0; i < index_.blocks.size(); ++i) {
    const BlockIndex& index = index_.blocks[i];
    const auto layer = static_cast<int64_t>(i);
    check_work_interrupt();
    x = recompute ? recomputed_block(state, index, layer, x) : block(state, index, layer, x);
  }
  // Every layer appends at the same length, so lengths grow once, after the last one.
  if (cache != nullptr) cache->advance(state.layout.cu_seqlens);
  return state.norm(index_.final_norm, x);
}

at::Tensor Decoder::head_weight(int64_t update_count) {
  return weights_.get(static_cast<size_t>(index_.head.weight), update_count);
}

}  // namespace xrun

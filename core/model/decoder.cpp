// x = embed(tokens), plus learned positions; x = block(x) for each layer; hidden = norm(x). Tokens
// whose keys the caller holds are not computed: only the attention sees them.

#include "core/model/decoder.h"

#include <ATen/ops/embedding.h>

#include "core/base/interrupt.h"
#include "core/model/block.h"
#include "core/model/kv_cache.h"
#include "core/model/model.h"
#include "core/model/ops/attention.h"
#include "core/model/ops/device.h"
#include "core/model/ops/moe_routing.h"
#include "core/model/recompute.h"

namespace xrun {

namespace {

// Runs a block that is computed again in the backward. Only the outputs of such a block get
// gradients, so keys, values and router statistics are outputs beside the hidden states.
at::Tensor recomputed_block(const ForwardState& state, const BlockIndex& index, int64_t layer,
                            const at::Tensor& x) {
  // A copy of the state: the backward calls this after forward() has returned.
  const auto run = [state, &index, layer](const at::Tensor& in) {
    ForwardState inner = state;
    // Local, since the backward runs this again and must not record a token twice.
    RouterRecord seen;
    std::vector<HeldKeys> keys;
    if (state.router != nullptr) inner.router = &seen;
    if (state.keys != nullptr) inner.keys = &keys;
    std::vector<at::Tensor> out{block(inner, index, layer, in)};
    for (const HeldKeys& held : keys) out.insert(out.end(), {held.k, held.v});
    for (const RouterRecord::Layer& routed : seen.layers) {
      out.insert(out.end(), {routed.prob_sum, routed.count});
    }
    return out;
  };
  const std::vector<at::Tensor> out = recomputed(run, x);
  size_t next = 1;
  if (state.keys != nullptr) {
    state.keys->push_back({out[next], out[next + 1]});
    next += 2;
  }
  // Counts have no gradient; only the sums of probabilities reach a loss.
  if (out.size() > next) {
    state.router->layers.push_back({.count = out[next + 1].detach(), .prob_sum = out[next]});
    state.router->tokens =
        state.multiplicity.defined() ? state.multiplicity.sum().item<int64_t>() : x.size(0);
    state.router->top_k = state.config.moe.top_k;
  }
  return out[0];
}

}  // namespace

Decoder::Decoder(const ModelConfig& config, const std::vector<Parameter>& parameters,
                 const LoadOptions& options, RangedWeights* ranged, size_t ranged_count)
    : config_(config),
      weights_(parameters, options.dtype, ranged, ranged_count),
      index_(decoder_index(config, parameters)),
      options_(options) {}

at::Tensor Decoder::embed(const ForwardState& state, const PackInput& input, int64_t first) const {
  const auto computed = [&](const at::Tensor& ids) {
    return on_device(ids.slice(0, first), options_.device);
  };
  const at::Tensor x = at::embedding(state.weight(index_.embedding.weight), computed(input.tokens));
  if (config_.positions != Positions::kLearned) return x;
  return x.add(at::embedding(state.weight(index_.positions.weight), computed(input.position_ids)));
}

at::Tensor Decoder::forward(const PackInput& input, int64_t update_count,
                            const ForwardOptions& options, KvCache* cache,
                            const PackedWeights* packed, std::vector<at::Tensor>* routes) {
  ForwardState state{.config = config_,
                     .weights = weights_,
                     .update_count = update_count,
                     .layout = {.cu_seqlens = {input.cu_seqlens.begin(), input.cu_seqlens.end()},
                                .parent = {input.parent.begin(), input.parent.end()}},
                     .cache = cache,
                     .packed = packed,
                     .gemm = options_.gemm,
                     .router = options.router,
                     .multiplicity = options.multiplicity,
                     .adapter = options_.adapter.get(),
                     .dropout = options.dropout,
                     .keys = options.keys,
                     .held = options.held,
                     .replay = options.replay,
                     .routes = routes};
  if (routes != nullptr) routes->assign(index_.blocks.size(), {});
  // The number of held tokens is the same in every layer; held_tokens() has checked them.
  const int64_t first = options.held ? options.held->front().k.size(0) : 0;
  if (state.multiplicity.defined()) state.multiplicity = state.multiplicity.slice(0, first);
  if (config_.positions == Positions::kRotary) {
    state.angles = rope_angles(config_.rope, config_.head_dim,
                               {input.position_ids, state.layout.cu_seqlens, input.rope_length},
                               options_.dtype, options_.device);
    state.angles = {state.angles.cos.slice(0, first), state.angles.sin.slice(0, first)};
  }
  at::Tensor x = embed(state, input, first);
  // A frozen model records no graph, so it has nothing to recompute. Blocks whose keys are wanted
  // are recomputed because their activations would stay over all micro-batches that read the keys,
  // and blocks in ranges because a graph would hold every block's fetched weights.
  const bool recompute =
      (options_.recompute || options.keys != nullptr || weights_.holds_ranges()) &&
      options_.trainable;
  for (size_t i = 0; i < index_.blocks.size(); ++i) {
    const BlockIndex& index = index_.blocks[i];
    const auto layer = static_cast<int64_t>(i);
    // Ctrl-C is answered between blocks.
    check_work_interrupt();
    x = recompute ? recomputed_block(state, index, layer, x) : block(state, index, layer, x);
  }
  // Every layer appends at the same length, so lengths grow once, after the last one.
  if (cache != nullptr) cache->advance(state.layout.cu_seqlens);
  return state.norm(index_.final_norm, x);
}

at::Tensor Decoder::head_weight(int64_t update_count) {
  return weight(index_.head.weight, update_count);
}

at::Tensor Decoder::weight(int64_t parameter, int64_t update_count) {
  return weights_.get(static_cast<size_t>(parameter), update_count);
}

// Linear maps alone: embeddings are looked up, and experts have a kernel of their own.
std::vector<int64_t> Decoder::packable() const {
  std::vector<int64_t> parameters = {index_.head.weight};  // its product is fp32 in any case
  if (options_.dtype != at::kFloat && options_.gemm != GemmType::kFloat) return parameters;
  for (const BlockIndex& b : index_.blocks) {
    for (const WeightIndex* map :
         {&b.qkv, &b.q, &b.k, &b.v, &b.o, &b.gate, &b.up, &b.down, &b.router}) {
      if (map->weight >= 0) parameters.push_back(map->weight);
    }
  }
  return parameters;
}

}  // namespace xrun

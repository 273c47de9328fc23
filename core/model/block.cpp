// x += norm(O attention(norm(x))), then x += norm(feed_forward(norm(x))). BlockSizes follows these
// functions one by one and adds up the memory that they take.

#include "core/model/block.h"

#include <ATen/ops/relu.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/base/error.h"
#include "core/model/kv_cache.h"
#include "core/model/ops/activation.h"
#include "core/model/ops/attention.h"
#include "core/model/ops/layer_norm.h"
#include "core/model/ops/moe_experts.h"
#include "core/model/ops/moe_routing.h"
#include "core/model/ops/rms_norm.h"
#include "core/model/ops/swiglu.h"
#include "core/model/weights/adapter.h"
#include "core/model/weights/hf_config.h"

namespace xrun {

namespace {

// Normalises x [T, H, K] per head (Qwen3) or over all heads (OLMo-2).
at::Tensor qk_norm(const ForwardState& state, const WeightIndex& index, const at::Tensor& x) {
  const ModelConfig& c = state.config;
  const at::Tensor rows = c.qk_norm == QkNorm::kPerHead ? x : x.flatten(1);
  return rms_norm(rows, state.weight(index.weight), c.norm_eps).view(x.sizes());
}

// Returns q [T, H, K], k and v [T, J, K], before RoPE.
std::array<at::Tensor, 3> project(const ForwardState& state, const BlockIndex& index,
                                  const at::Tensor& x) {
  const ModelConfig& c = state.config;
  const int64_t T = x.size(0), K = c.head_dim;
  std::array<at::Tensor, 3> qkv;
  if (index.qkv.weight >= 0) {
    const at::Tensor all = state.linear(index.qkv, x).view({T, c.heads + 2 * c.kv_heads, K});
    qkv = {all.narrow(1, 0, c.heads), all.narrow(1, c.heads, c.kv_heads),
           all.narrow(1, c.heads + c.kv_heads, c.kv_heads)};
  } else {
    qkv = {state.linear(index.q, x).view({T, c.heads, K}),
           state.linear(index.k, x).view({T, c.kv_heads, K}),
           state.linear(index.v, x).view({T, c.kv_heads, K})};
  }
  if (c.qk_norm != QkNorm::kNone) {
    qkv[0] = qk_norm(state, index.q_norm, qkv[0]);
    qkv[1] = qk_norm(state, index.k_norm, qkv[1]);
  }
  return qkv;
}

// Returns head_dim^-1/2 unless the config sets another scale. GPT-2's
// scale_attn_by_inverse_layer_idx divides it by the layer's number, counted from 1.
double score_scale(const ModelConfig& c, int64_t layer) {
  const double scale =
      c.score_scale != 0 ? c.score_scale : 1.0 / std::sqrt(static_cast<double>(c.head_dim));
  return c.score_by_layer ? scale / static_cast<double>(layer + 1) : scale;
}

at::Tensor attention(const ForwardState& state, const BlockIndex& index, int64_t layer,
                     const at::Tensor& x) {
  const ModelConfig& c = state.config;
  auto [q, k, v] = project(state, index, x);
  if (c.positions == Positions::kRotary) {
    q = rope(q, state.angles);
    k = rope(k, state.angles);
  }
  const double scale = score_scale(c, layer);
  AttentionLayout layout = state.layout;
  // Layers share the layout except for their windows.
  layout.window = c.window(layer);
  // Copies, since k and v may be views of a larger product that nothing else needs. A later
  // micro-batch reads them, already rotated.
  if (state.keys != nullptr) {
    state.keys->push_back(
        {k.clone(at::MemoryFormat::Contiguous), v.clone(at::MemoryFormat::Contiguous)});
  }
  const auto attend = [&] {
    // Sampling: the cache appends the new keys first.
    if (state.cache != nullptr) return state.cache->attend(layer, q, k, v, layout, scale);
    // A pack that computes all of its keys.
    if (!state.held) return varlen_attention(q, k, v, layout, scale);
    // The keys of a held prefix come from an earlier forward.
    return varlen_attention(q, k, v, (*state.held)[static_cast<size_t>(layer)], layout, scale);
  };
  return state.linear(index.o, attend().view({x.size(0), c.heads * c.head_dim}));
}

at::Tensor mixture(const ForwardState& state, const BlockIndex& index, int64_t layer,
                   const at::Tensor& x) {
  const MoeConfig& moe = state.config.moe;
  const auto at = static_cast<size_t>(layer);
  // With a replay the experts are given, and the router gives only their probabilities.
  const Routing routing = route(state.linear(index.router, x), moe.top_k, moe.renormalise,
                                state.replay ? (*state.replay)[at] : at::Tensor());
  if (state.routes != nullptr) (*state.routes)[at] = routing.index;
  if (state.router != nullptr) state.router->add_layer(routing, state.multiplicity);
  return moe_experts(x, routing.index, routing.weight, state.weight(index.expert_gate_up),
                     state.weight(index.expert_down), state.gemm);
}

at::Tensor activate(Activation activation, const at::Tensor& x) {
  switch (activation) {
    case Activation::kSilu: return xrun::silu(x);
    case Activation::kGeluTanh: return xrun::gelu_tanh(x);
    case Activation::kGelu: return xrun::gelu(x);
    case Activation::kRelu: return at::relu(x);
  }
  throw Error("unknown activation");
}

at::Tensor feed_forward(const ForwardState& state, const BlockIndex& index, int64_t layer,
                        const at::Tensor& x) {
  if (index.router.weight >= 0) return mixture(state, index, layer, x);
  const ModelConfig& c = state.config;
  const at::Tensor up = state.linear(index.up, x);
  if (!c.gated) return state.linear(index.down, activate(c.activation, up));
  const at::Tensor gate = state.linear(index.gate, x);
  // SwiGLU has a kernel; other gated activations are composed.
  const bool fused = c.activation == Activation::kSilu;
  return state.linear(index.down, fused ? swiglu(gate, up) : activate(c.activation, gate).mul(up));
}

}  // namespace

at::Tensor ForwardState::weight(int64_t parameter) const {
  return weights.get(static_cast<size_t>(parameter), update_count);
}

at::Tensor ForwardState::linear(const WeightIndex& index, const at::Tensor& x) const {
  const at::Tensor bias = index.bias < 0 ? at::Tensor() : weight(index.bias);
  const PackedMatrix* const ready = packed == nullptr ? nullptr : packed->find(index.weight);
  const at::Tensor y = ready != nullptr ? xrun::linear(x, *ready, bias)
                                        : xrun::linear(x, weight(index.weight), bias, gemm);
  if (adapter == nullptr || index.low_a < 0) return y;
  // As in PEFT, dropout applies only to the adapter's input; the base map reads all of x.
  const double rate = dropout ? adapter->options.dropout : 0;
  const at::Tensor read = rate > 0 ? dropped(x, rate, *dropout, index.low_a) : x;
  return y.add(low_rank(read, weight(index.low_a), weight(index.low_b), adapter->scale(), gemm));
}

at::Tensor ForwardState::norm(const WeightIndex& index, const at::Tensor& x) const {
  if (index.weight < 0) return x;
  if (config.norm == Norm::kRms) return rms_norm(x, weight(index.weight), config.norm_eps);
  return xrun::layer_norm(x, weight(index.weight), weight(index.bias), config.norm_eps);
}

at::Tensor block(const ForwardState& state, const BlockIndex& index, int64_t layer,
                 const at::Tensor& x) {
  // x, y [T, D]. Nested, so that each half's tensors are freed as soon as they have been read.
  const at::Tensor y =
      x.add(state.norm(index.attention_out_norm,
                       attention(state, index, layer, state.norm(index.attention_norm, x))));
  return y.add(state.norm(index.ffn_out_norm,
                          feed_forward(state, index, layer, state.norm(index.ffn_norm, y))));
}

namespace {

// The memory of one block, collected in the order of the functions above. Sizes are doubles, so
// that a hostile config's products do not overflow.
class BlockSizes {
 public:
  BlockSizes(const ModelConfig& config, c10::ScalarType dtype,
             const std::optional<AdapterOptions>& adapter)
      : c_(config),
        adapter_(adapter),
        element_(static_cast<double>(elementSize(dtype))),
        saved_(element_),
        hidden_(static_cast<double>(config.hidden)) {}

  BlockMemory read() {
    attention(norm(c_.names.attention_norm, "x"));
    norm(c_.names.attention_out_norm, "a");
    const std::string normed = norm(c_.names.ffn_norm, "y");
    // The config has one layer, which stands for all of its kind (LayerKinds).
    c_.is_moe(0) ? mixture(normed) : feed_forward(normed);
    norm(c_.names.ffn_out_norm, "f");
    for (const LinearModule& module : linear_modules(c_)) adapter(module);
    // The residual stream and the normed input, or their gradients, exist beside either half.
    return {.saved = saved_.bytes(),
            .forward = element_ * (2 * hidden_ + most_.forward),
            .backward = element_ * (2 * hidden_ + most_.backward),
            .gradient = gradient_};
  }

 private:
  // Returns the name of the result: x itself if the family lacks the norm.
  std::string norm(const std::string& role, const std::string& x) {
    if (role.empty()) return x;
    if (c_.norm == Norm::kRms) {
      rms_norm_saves(saved_, x, hidden_);
    } else {
      layer_norm_saves(saved_, x, hidden_);
    }
    return x + ".normed";
  }

  // Counts the input of the linear map `role`. An adapter on it reads the same input or, with
  // dropout, a masked copy.
  void linear(const std::string& role, const std::string& x, double width) {
    if (role.empty()) return;
    const bool trained =
        !adapter_ || (adapter_->dropout == 0 && is_adapter_target(*adapter_, {.name = role}));
    linear_saves(saved_, x, width, trained);
  }

  void adapter(const LinearModule& module) {
    if (!adapter_ || !is_adapter_target(*adapter_, module)) return;
    const auto width = static_cast<double>(module.in);
    saved_.add(module.name + ".a_x", static_cast<double>(adapter_->rank));
    if (adapter_->dropout == 0) return;
    dropped_saves(saved_, module.name, width);
    saved_.add(module.name + ".dropped", width);
  }

  void attention(const std::string& x) {
    const auto heads = static_cast<double>(c_.heads), kv_heads = static_cast<double>(c_.kv_heads);
    const auto head_dim = static_cast<double>(c_.head_dim);
    for (const std::string& role : {c_.names.qkv, c_.names.q, c_.names.k, c_.names.v}) {
      if (role != c_.names.qkv && !c_.names.qkv.empty()) continue;
      linear(role, x, hidden_);
    }
    if (c_.qk_norm != QkNorm::kNone) {
      const auto norm_heads = [&](const char* name, double count) {
        if (c_.qk_norm == QkNorm::kPerHead) return rms_norm_saves(saved_, name, head_dim, count);
        rms_norm_saves(saved_, name, head_dim * count);
      };
      norm_heads("q.projected", heads);
      norm_heads("k.projected", kv_heads);
    }
    attention_saves(saved_, heads, kv_heads, head_dim);
    allocate(attention_temporaries(heads, kv_heads, head_dim));
    linear(c_.names.o, "attention_out", heads * head_dim);
  }

  void mixture(const std::string& y) {
    const auto experts = static_cast<double>(c_.moe.experts);
    const auto top_k = static_cast<double>(c_.moe.top_k), inner = static_cast<double>(c_.moe.ffn);
    route_saves(saved_, experts, top_k);
    moe_experts_saves(saved_, y, hidden_, inner, top_k);
    allocate(moe_experts_temporaries(hidden_, inner, top_k));
    gradient_ = 4 * 3 * experts * inner * hidden_;  // gate, up and down of all experts at once
  }

  void feed_forward(const std::string& y) {
    const auto width = static_cast<double>(c_.ffn);
    linear(c_.names.up, y, hidden_);
    linear(c_.names.gate, y, hidden_);
    swiglu_or_activation(width);
    linear(c_.names.down, "activated", width);
    // The gradient of one map at a time, in fp32.
    gradient_ = 4 * width * hidden_;
  }

  void swiglu_or_activation(double width) {
    if (c_.gated && c_.activation == Activation::kSilu) {
      swiglu_saves(saved_, width);
      return allocate(swiglu_temporaries(width));
    }
    activation_saves(saved_, width, c_.gated);
    allocate(activation_temporaries(width, c_.gated));
  }

  void allocate(const Temporaries& temporaries) {
    most_.forward = std::max(most_.forward, temporaries.forward);
    most_.backward = std::max(most_.backward, temporaries.backward);
  }

  const ModelConfig& c_;
  const std::optional<AdapterOptions>& adapter_;
  double element_;  // bytes of an activation
  SavedTensors saved_;
  Temporaries most_;
  double gradient_ = 0;
  double hidden_;
};

}  // namespace

BlockMemory block_memory(const ModelConfig& config, c10::ScalarType dtype,
                         const std::optional<AdapterOptions>& adapter) {
  return BlockSizes(config, dtype, adapter).read();
}

}  // namespace xrun

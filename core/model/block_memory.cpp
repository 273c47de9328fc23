#include "core/model/block_memory.h"

#include <algorithm>

#include "core/model/weights/hf_config.h"
#include "core/model/memory_plan.h"

namespace xrun {

namespace {

class Block {
 public:
  Block(const ModelConfig& config, const MemoryShape& shape)
      : c_(config), w_(config), s_(shape), size_(static_cast<double>(elementSize(shape.dtype))) {}

  // Bytes a token.
  double kept() const { return attention() + feed_forward() + adapters(); }

  double backward() const {
    const double heads = (4 * w_.heads + 4 * w_.kv_heads) * w_.head_dim;
    // The gradient of what the last map read stands where that itself stood.
    double inner = c_.gated ? 2 * w_.ffn : w_.ffn;
    if (c_.is_moe(0)) inner = w_.top_k * (2 * w_.hidden + 6 * w_.expert_ffn);
    return size_ * (2 * w_.hidden + std::max(heads, inner));
  }

 private:
  // Whether a linear map's input is kept: for its own gradient, or an adapter's on it, which reads
  // a masked copy where there is dropout.
  bool keeps_input(const std::string& role) const {
    if (role.empty()) return false;
    if (!s_.adapter || s_.gemm == GemmType::kFloat) return true;
    return s_.adapter->dropout == 0 && is_adapter_target(*s_.adapter, {.name = role});
  }

  double attention() const {
    const double D = w_.hidden, HK = w_.heads * w_.head_dim, GK = w_.kv_heads * w_.head_dim;
    const WeightNames& n = c_.names;
    const bool reads = c_.names.qkv.empty()
                           ? keeps_input(n.q) || keeps_input(n.k) || keeps_input(n.v)
                           : keeps_input(n.qkv);
    double elements = D + (reads ? D : 0) + 2 * HK + 2 * GK;
    double bytes = 4 * w_.heads + norm_bytes();
    if (c_.qk_norm) {
      elements += HK + GK;
      bytes += 4 * (w_.heads + w_.kv_heads);
    }
    return size_ * elements + bytes;
  }

  double norm_bytes() const { return c_.norm == Norm::kLayer ? 8 : 4; }

  double feed_forward() const {
    const double D = w_.hidden;
    if (c_.is_moe(0)) {
      return size_ * (2 * D + 2 * w_.top_k * w_.expert_ffn) + norm_bytes() + 4 * w_.experts +
             16 * w_.top_k;
    }
    const bool reads = keeps_input(c_.names.up) || keeps_input(c_.names.gate);
    double inner = c_.gated ? 2 * w_.ffn : w_.ffn;
    if (c_.gated && c_.activation != Activation::kSilu) inner += w_.ffn;
    if (keeps_input(c_.names.down)) inner += w_.ffn;
    return size_ * (D + (reads ? D : 0) + inner) + norm_bytes();
  }

  // What a map with an adapter keeps besides its input: A x, and with dropout mask and masked
  // input.
  double adapters() const {
    if (!s_.adapter) return 0;
    double elements = 0;
    for (const LinearModule& module : linear_modules(c_)) {
      if (!is_adapter_target(*s_.adapter, module)) continue;
      elements += static_cast<double>(s_.adapter->rank);
      if (s_.adapter->dropout > 0) elements += 2 * static_cast<double>(module.in);
    }
    return size_ * elements;
  }

  const ModelConfig& c_;
  const WideSizes w_;
  const MemoryShape& s_;
  double size_;
};

}  // namespace

WideSizes::WideSizes(const ModelConfig& config)
    : hidden(static_cast<double>(config.hidden)),
      heads(static_cast<double>(config.heads)),
      kv_heads(static_cast<double>(config.kv_heads)),
      head_dim(static_cast<double>(config.head_dim)),
      ffn(static_cast<double>(config.ffn)),
      vocab(static_cast<double>(config.vocab)),
      experts(static_cast<double>(config.moe.experts)),
      top_k(static_cast<double>(config.moe.top_k)),
      expert_ffn(static_cast<double>(config.moe.ffn)) {}

BlockMemory block_memory(const ModelConfig& config, const MemoryShape& shape) {
  const Block block(config, shape);
  const auto tokens = static_cast<double>(shape.tokens);
  return {tokens * block.kept(), tokens * block.backward()};
}

}  // namespace xrun

#include "core/model/block_memory.h"

#include <algorithm>

#include "core/model/hf_config.h"
#include "core/model/memory_plan.h"

namespace xrun {

namespace {

class Block {
 public:
  Block(const ModelConfig& config, const MemoryShape& shape, int64_t layer)
      : c_(config), s_(shape), layer_(layer), size_(elementSize(shape.dtype)) {}

  // Bytes a token.
  int64_t kept() const { return attention() + feed_forward() + adapters(); }

  int64_t backward() const {
    const int64_t heads = (4 * c_.heads + 4 * c_.kv_heads) * c_.head_dim;
    int64_t inner = c_.gated ? 3 * c_.ffn : 2 * c_.ffn;
    if (c_.is_moe(layer_)) inner = c_.moe.top_k * (2 * c_.hidden + 6 * c_.moe.ffn);
    return size_ * (2 * c_.hidden + std::max(heads, inner));
  }

 private:
  // Whether a linear map's input is kept: for its own gradient, or an adapter's on it, which reads
  // a masked copy where there is dropout.
  bool keeps_input(const std::string& role) const {
    if (role.empty()) return false;
    if (!s_.adapter || s_.gemm == GemmType::kFloat) return true;
    return s_.adapter->dropout == 0 && is_adapter_target(*s_.adapter, {.name = role});
  }

  int64_t attention() const {
    const int64_t D = c_.hidden, HK = c_.heads * c_.head_dim, GK = c_.kv_heads * c_.head_dim;
    const WeightNames& n = c_.names;
    const bool reads = c_.names.qkv.empty()
                           ? keeps_input(n.q) || keeps_input(n.k) || keeps_input(n.v)
                           : keeps_input(n.qkv);
    int64_t elements = D + (reads ? D : 0) + 2 * HK + 2 * GK;
    int64_t bytes = 4 * c_.heads + norm_bytes();
    if (c_.qk_norm) {
      elements += HK + GK;
      bytes += 4 * (c_.heads + c_.kv_heads);
    }
    return size_ * elements + bytes;
  }

  int64_t norm_bytes() const { return c_.norm == Norm::kLayer ? 8 : 4; }

  int64_t feed_forward() const {
    const int64_t D = c_.hidden;
    if (c_.is_moe(layer_)) {
      const MoeConfig& moe = c_.moe;
      return size_ * (2 * D + 2 * moe.top_k * moe.ffn) + norm_bytes() + 4 * moe.experts +
             16 * moe.top_k;
    }
    const bool reads = keeps_input(c_.names.up) || keeps_input(c_.names.gate);
    int64_t inner = c_.gated ? 2 * c_.ffn : c_.ffn;
    if (c_.gated && c_.activation != Activation::kSilu) inner += c_.ffn;
    if (keeps_input(c_.names.down)) inner += c_.ffn;
    return size_ * (D + (reads ? D : 0) + inner) + norm_bytes();
  }

  // What a map with an adapter keeps besides its input: A x, and with dropout mask and masked
  // input.
  int64_t adapters() const {
    if (!s_.adapter) return 0;
    int64_t elements = 0;
    const std::string prefix =
        c_.names.layer.substr(0, c_.names.layer.find('{')) + std::to_string(layer_) + ".";
    for (const LinearModule& module : linear_modules(c_)) {
      if (!module.name.starts_with(prefix) || !is_adapter_target(*s_.adapter, module)) continue;
      elements += s_.adapter->rank + (s_.adapter->dropout > 0 ? 2 * module.in : 0);
    }
    return size_ * elements;
  }

  const ModelConfig& c_;
  const MemoryShape& s_;
  int64_t layer_, size_;
};

}  // namespace

BlockMemory block_memory(const ModelConfig& config, const MemoryShape& shape, int64_t layer) {
  const Block block(config, shape, layer);
  return {shape.tokens * block.kept(), shape.tokens * block.backward()};
}

}  // namespace xrun

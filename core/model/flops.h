#pragma once
// Model FLOPs: the floating-point operations that a model's matrix products need for a pack,
// counted from shapes. A multiply-add is two.

#include <cstdint>
#include <vector>

namespace xrun {

struct AdapterOptions;
struct ModelConfig;

// FLOPs of the blocks for one pack.
struct PackFlops {
  double base = 0;       // of the linear maps of all blocks, forward
  double adapter = 0;    // of an adapter's factors, forward
  double attention = 0;  // of q k^T and p v, forward

  double forward() const { return base + adapter + attention; }
  PackFlops& operator-=(const PackFlops& part) {
    base -= part.base, adapter -= part.adapter, attention -= part.attention;
    return *this;
  }
  // The gradient of a product's input costs as much as the product, and the gradient of a trained
  // weight as much again; attention has two operands with gradients. Recomputed blocks do not
  // count: utilisation is measured against the operations that the model needs (Chowdhery et al.
  // 2022, appendix B).
  //   trained  the share of the base weights that is trained
  double backward(double trained) const {
    return (1 + trained) * base + 2 * adapter + 2 * attention;
  }
};

// Returns the FLOPs of the blocks, without the vocabulary projection. A linear map costs 2 in out
// per token; a mixture of experts counts its router and top_k experts. Attention costs 4 head_dim
// per layer, head and pair of a query and a key that it sees (causal, within the layer's window).
//   cu_seqlens  [N+1] boundaries of the segments, or of the nodes of trees
//   parent      [N] the node above, -1 for a root; empty: all are roots
//   adapter     of the linear maps; null: none
PackFlops pack_flops(const ModelConfig& config, const std::vector<int32_t>& cu_seqlens,
                     const std::vector<int32_t>& parent = {},
                     const AdapterOptions* adapter = nullptr);

// Returns the FLOPs of the vocabulary projection of `rows` loss rows, 2 rows V D. Its backward
// costs as much for the hidden states, and as much again for a trained weight.
double head_flops(const ModelConfig& config, int64_t rows);

// Returns the FLOPs of all forwards of all models since the process began, each with its backward
// if a graph was recorded. Models add to the count; a step reports the difference. Thread-safe.
double counted_flops();
void count_flops(double flops);

}  // namespace xrun

// N weights cost 6 N per token in a trained model: 2 N in the forward, 2 N for the gradients of
// inputs and 2 N for those of weights. In a frozen model they cost 2 N.

#include "core/model/flops.h"

#include <algorithm>
#include <atomic>

#include "core/model/weights/adapter.h"
#include "core/model/weights/hf_config.h"

namespace xrun {

namespace {

// Summed over all models of the process.
std::atomic<double> flops_since_start = 0;

// Returns the keys seen by the n queries of a causal segment: 1 + 2 + ... + n, where each summand
// is at most `window` (0: no window).
double seen_keys(double n, double window) {
  // The first `rising` queries see one key more than the one before; the rest see a full window.
  const double rising = window > 0 ? std::min(n, window) : n;
  return rising * (rising + 1) / 2 + (n - rising) * rising;
}

double expert_weights(const ModelConfig& config) {
  const auto hidden = static_cast<double>(config.hidden);
  const MoeConfig& moe = config.moe;
  // The router reads all experts' rows; gate, up and down run only for the top k.
  return static_cast<double>(moe.experts) * hidden +
         static_cast<double>(moe.top_k) * 3 * static_cast<double>(moe.ffn) * hidden;
}

}  // namespace

PackFlops pack_flops(const ModelConfig& config, const std::vector<int32_t>& cu_seqlens,
                     const std::vector<int32_t>& parent, const AdapterOptions* adapter) {
  double weights = 0, factors = 0, keys = 0;
  std::vector<double> above(cu_seqlens.size(), 0);  // tokens of the nodes above each node
  // Parents come before their children, so above[up] is final.
  for (size_t n = 0; n < parent.size(); ++n) {
    if (parent[n] < 0) continue;
    const auto up = static_cast<size_t>(parent[n]);
    above[n] = above[up] + cu_seqlens[up + 1] - cu_seqlens[up];
  }
  for (const LinearModule& module : linear_modules(config)) {
    const auto in = static_cast<double>(module.in), out = static_cast<double>(module.out);
    weights += in * out;
    if (adapter != nullptr && is_adapter_target(*adapter, module)) {
      factors += static_cast<double>(adapter->rank) * (in + out);
    }
  }
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    if (config.is_moe(layer)) weights += expert_weights(config);
    const auto window = static_cast<double>(config.window(layer));
    for (size_t n = 0; n + 1 < cu_seqlens.size(); ++n) {
      // The keys of a node's queries: those of its whole path less those of the path above it.
      const double end = above[n] + cu_seqlens[n + 1] - cu_seqlens[n];
      keys += seen_keys(end, window) - seen_keys(above[n], window);
    }
  }
  const double tokens = cu_seqlens.empty() ? 0 : cu_seqlens.back() - cu_seqlens.front();
  return {.base = 2 * tokens * weights,
          .adapter = 2 * tokens * factors,
          // Two products, q k^T and p v, of 2 operations per element.
          .attention = 4 * keys * static_cast<double>(config.heads * config.head_dim)};
}

double head_flops(const ModelConfig& config, int64_t rows) {
  return 2 * static_cast<double>(rows) * static_cast<double>(config.vocab) *
         static_cast<double>(config.hidden);
}

double counted_flops() { return flops_since_start.load(); }

void count_flops(double flops) { flops_since_start += flops; }

}  // namespace xrun

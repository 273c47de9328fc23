#pragma once
// The routes of a mixture of experts from a sampler, as the tensors of a training forward: rollout
// routing replay (R3, arXiv 2510.11370).

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace xrun {

struct ComputedPack;
struct PackedBatch;
struct TokenRoutes;

// By segment of a pack, for its first tokens; null: unknown. All have the same width.
using SegmentRoutes = std::vector<std::shared_ptr<const TokenRoutes>>;

// Numbers pairs of a token and its experts, as FoldOptions::token_keys: a token of unknown routes,
// whose experts the router chooses, has its id as the key, every other pair a negative number.
class RoutedTokens {
 public:
  // Returns the keys of a sequence, [n]; `routes` are of its first tokens and must outlive this
  // object; null: unknown.
  std::vector<int32_t> keys(std::span<const int32_t> tokens, const TokenRoutes* routes);

 private:
  // By the experts, then by the token. The bytes are those of TokenRoutes::experts.
  std::unordered_map<std::string_view, std::unordered_map<int32_t, int32_t>> known_;
  int32_t count_ = 0;
};

// Returns the keys of a pack's tokens, [T].
std::vector<int32_t> routed_token_keys(const PackedBatch& pack, const SegmentRoutes& routes);

// Returns the experts of each computed token, as ForwardOptions::replay; null if all are unknown.
// Segments that share a token take the same experts for it.
std::shared_ptr<const std::vector<at::Tensor>> computed_routes(const PackedBatch& pack,
                                                               const ComputedPack& computed,
                                                               const SegmentRoutes& routes);

}  // namespace xrun

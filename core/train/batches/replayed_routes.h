#pragma once
// Rollout routing replay (R3, arXiv 2510.11370): the experts that a sampler's router chose, as the
// tensors that make a training forward take the same.

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

// The routes of the first tokens of each segment of a pack; null: unknown. All have the same width.
using SegmentRoutes = std::vector<std::shared_ptr<const TokenRoutes>>;

// Makes FoldOptions::token_keys: equal keys mean equal tokens that take equal experts. The key of a
// token of unknown routes, whose experts the router chooses, is its id; every other pair of token
// and experts gets a negative number.
class RoutedTokens {
 public:
  // Returns the keys of a sequence of n tokens, [n].
  //   routes  of its first tokens; must outlive this object. Null: unknown
  std::vector<int32_t> keys(std::span<const int32_t> tokens, const TokenRoutes* routes);

 private:
  // The keys by the experts, as the bytes of TokenRoutes::experts, then by the token.
  std::unordered_map<std::string_view, std::unordered_map<int32_t, int32_t>> known_;
  int32_t count_ = 0;
};

// Returns the keys of a pack's tokens, [T].
std::vector<int32_t> routed_token_keys(const PackedBatch& pack, const SegmentRoutes& routes);

// Returns the experts of each computed token as ForwardOptions::replay has them, or null if all are
// unknown. Requires that segments that share a token have the same experts for it.
std::shared_ptr<const std::vector<at::Tensor>> computed_routes(const PackedBatch& pack,
                                                               const ComputedPack& computed,
                                                               const SegmentRoutes& routes);

}  // namespace xrun

#pragma once
// The routes of a mixture of experts from a sampler, as the tensors of a training forward: rollout
// routing replay (R3, arXiv 2510.11370).

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

namespace xrun {

struct ComputedPack;
struct FoldedPack;
struct PackedBatch;
struct TokenRoutes;

// By segment of a pack, for its first tokens; null: unknown. All have the same width.
using SegmentRoutes = std::vector<std::shared_ptr<const TokenRoutes>>;

// Returns whether the segments that share a computed token have the same experts for it, as far as
// they are known.
bool routes_agree(const PackedBatch& pack, const FoldedPack& fold, const SegmentRoutes& routes);

// Returns the experts of each computed token, as ForwardOptions::replay; null if all are unknown. A
// shared token has those of a segment that knows them.
std::shared_ptr<const std::vector<at::Tensor>> computed_routes(const PackedBatch& pack,
                                                               const ComputedPack& computed,
                                                               const SegmentRoutes& routes);

}  // namespace xrun

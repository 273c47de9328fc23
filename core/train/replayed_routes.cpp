// The sampler never computes the last token of an answer, so its routes are unknown. It predicts
// nothing, and where another segment continues after it, that segment has its routes.

#include "core/train/replayed_routes.h"

#include <ATen/ops/full.h>

#include <algorithm>
#include <span>

#include "core/data/packs/packed_batch.h"
#include "core/model/ops/moe_routing.h"
#include "core/prefix/folded_pack.h"
#include "core/train/computed_pack.h"

namespace xrun {

namespace {

// Calls `each` with the slot in the pack and the experts of every token with known routes.
template <typename Each>
void for_known_routes(const PackedBatch& pack, const SegmentRoutes& routes, const Each& each) {
  for (size_t s = 0; s < routes.size(); ++s) {
    if (routes[s] == nullptr || routes[s]->token_count() == 0) continue;
    const TokenRoutes& of = *routes[s];
    const int64_t begin = pack.cu_seqlens[s], tokens = pack.cu_seqlens[s + 1] - begin;
    for (int64_t t = 0; t < std::min(tokens, of.token_count()); ++t) {
      const auto width = static_cast<size_t>(of.width());
      const auto experts = std::span(of.experts).subspan(static_cast<size_t>(t) * width, width);
      const bool known =
          std::any_of(experts.begin(), experts.end(), [](int16_t e) { return e >= 0; });
      if (known) each(static_cast<size_t>(begin + t), experts);
    }
  }
}

}  // namespace

bool routes_agree(const PackedBatch& pack, const FoldedPack& fold, const SegmentRoutes& routes) {
  std::vector<std::span<const int16_t>> of_flat(fold.tokens.size());
  bool agree = true;
  for_known_routes(pack, routes, [&](size_t slot, std::span<const int16_t> experts) {
    std::span<const int16_t>& seen = of_flat[static_cast<size_t>(fold.flat_of[slot])];
    if (seen.empty()) {
      seen = experts;
    } else {
      agree = agree && std::equal(seen.begin(), seen.end(), experts.begin(), experts.end());
    }
  });
  return agree;
}

std::shared_ptr<const std::vector<at::Tensor>> computed_routes(const PackedBatch& pack,
                                                               const ComputedPack& computed,
                                                               const SegmentRoutes& routes) {
  const auto some = std::find_if(routes.begin(), routes.end(), [](const auto& of) {
    return of != nullptr && of->token_count() > 0;
  });
  if (some == routes.end()) return nullptr;
  const int64_t layers = (*some)->layers, top_k = (*some)->top_k;
  auto replay = std::make_shared<std::vector<at::Tensor>>();
  std::vector<int64_t*> data;
  for (int64_t layer = 0; layer < layers; ++layer) {
    replay->push_back(at::full({computed.token_count(), top_k}, -1, at::kLong));
    data.push_back(replay->back().mutable_data_ptr<int64_t>());
  }
  for_known_routes(pack, routes, [&](size_t slot, std::span<const int16_t> experts) {
    const auto token =
        computed.fold == nullptr ? static_cast<int64_t>(slot) : computed.fold->flat_of[slot];
    for (int64_t i = 0; i < std::ssize(experts); ++i) {
      data[static_cast<size_t>(i / top_k)][token * top_k + i % top_k] =
          experts[static_cast<size_t>(i)];
    }
  });
  return replay;
}

}  // namespace xrun

// A shared token is computed once, with one choice of experts, so two segments share a token only
// if their experts for it are equal. The sampler never computed the last token of an answer, so its
// routes are unknown: the router chooses for it, and it predicts nothing.

#include "core/train/batches/replayed_routes.h"

#include <ATen/ops/full.h>

#include <algorithm>
#include <span>

#include "core/data/packs/packed_batch.h"
#include "core/model/ops/moe_routing.h"
#include "core/prefix/folded_pack.h"
#include "core/train/batches/computed_pack.h"

namespace xrun {

namespace {

// Calls `each` with the index and the experts of every token of a sequence with known routes.
template <typename Each>
void for_known_routes(int64_t tokens, const TokenRoutes& routes, const Each& each) {
  const auto width = static_cast<size_t>(routes.width());
  for (int64_t t = 0; t < std::min(tokens, routes.token_count()); ++t) {
    const auto experts = std::span(routes.experts).subspan(static_cast<size_t>(t) * width, width);
    const bool known =
        std::any_of(experts.begin(), experts.end(), [](int16_t e) { return e >= 0; });
    if (known) each(static_cast<size_t>(t), experts);
  }
}

}  // namespace

std::vector<int32_t> RoutedTokens::keys(std::span<const int32_t> tokens,
                                        const TokenRoutes* routes) {
  std::vector<int32_t> keys(tokens.begin(), tokens.end());
  if (routes == nullptr) return keys;
  for_known_routes(std::ssize(tokens), *routes, [&](size_t t, std::span<const int16_t> experts) {
    const std::string_view bytes(reinterpret_cast<const char*>(experts.data()),
                                 experts.size_bytes());
    // Equal (token, experts) get one negative key, which no plain token id equals.
    const auto [known, added] = known_[bytes].try_emplace(tokens[t], -1 - count_);
    if (added) ++count_;
    keys[t] = known->second;
  });
  return keys;
}

std::vector<int32_t> routed_token_keys(const PackedBatch& pack, const SegmentRoutes& routes) {
  RoutedTokens tokens;
  std::vector<int32_t> all;
  for (size_t s = 0; s + 1 < pack.cu_seqlens.size(); ++s) {
    const auto begin = static_cast<size_t>(pack.cu_seqlens[s]);
    const auto end = static_cast<size_t>(pack.cu_seqlens[s + 1]);
    const std::vector<int32_t> keys =
        tokens.keys(std::span(pack.tokens).subspan(begin, end - begin),
                    s < routes.size() ? routes[s].get() : nullptr);
    all.insert(all.end(), keys.begin(), keys.end());
  }
  return all;
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
    // -1: the router chooses, as for layers without experts and tokens without routes.
    replay->push_back(at::full({computed.token_count(), top_k}, -1, at::kLong));
    data.push_back(replay->back().mutable_data_ptr<int64_t>());
  }
  for (size_t s = 0; s < routes.size(); ++s) {
    if (routes[s] == nullptr) continue;
    const auto begin = static_cast<size_t>(pack.cu_seqlens[s]);
    const int64_t tokens = pack.cu_seqlens[s + 1] - pack.cu_seqlens[s];
    for_known_routes(tokens, *routes[s], [&](size_t t, std::span<const int16_t> experts) {
      const int64_t token = computed.fold == nullptr ? static_cast<int64_t>(begin + t)
                                                     : computed.fold->flat_of[begin + t];
      for (int64_t i = 0; i < std::ssize(experts); ++i) {
        data[static_cast<size_t>(i / top_k)][token * top_k + i % top_k] =
            experts[static_cast<size_t>(i)];
      }
    });
  }
  return replay;
}

}  // namespace xrun

#pragma once
// Ranks of a test that hold models in ranges.

#include <memory>

#include "core/dist/fetching_ranks.h"
#include "core/train/models/gradient_exchange.h"

namespace xrun {

// The ranks of one process, or none.
struct Fetching {
  explicit Fetching(Ranks* ranks) {
    if (ranks == nullptr) return;
    all = std::make_unique<FetchingRanks>(*ranks);
    all->begin_meetings();
  }
  // A rank that ends may still have to serve another one.
  ~Fetching() {
    if (all) all->barrier("the end of a test");
  }
  DistOptions dist(int64_t level) const { return {all.get(), level}; }
  std::unique_ptr<FetchingRanks> all;
};

}  // namespace xrun

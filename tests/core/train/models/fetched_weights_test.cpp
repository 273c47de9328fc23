// The ranges of a model that a rank holds: its share, and trained weights first.

#include "core/train/models/fetched_weights.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/model/model.h"
#include "core/model/weights/init_model.h"
#include "core/train/models/policy.h"
#include "tests/core/train/fetching.h"
#include "tests/core/train/tiny_pairs.h"
#include "tests/forked_ranks.h"

namespace xrun::fetched_weights_test {
namespace {

// A rank holds its share of the trained weights.
void expect_share(const std::vector<std::string>& train) {
  const TinyFolder folder;
  init_model(folder.path() / "deep", {.layers = 12, .hidden = 128, .vocab = 300});
  const auto texts = on_ranks(4, [&](Ranks* ranks) -> std::string {
    const Fetching fetching(ranks);
    const auto policy =
        Policy::open(folder.path() / "deep", {.train = train, .dist = fetching.dist(3)});
    Model& model = policy->model();
    int64_t held = 0, all = 0;
    for (size_t i = 0; i < model.trained_parameters().size(); ++i) {
      held += model.ranged_weights()->master_range(i).held.numel();
      all += model.trained_parameters()[i].master.numel();
    }
    EXPECT_EQ(model.parameters()[0].master.storage().nbytes(), sizeof(float));
    // Frozen weights are in ranges too.
    const bool has_frozen = !train.empty();
    EXPECT_EQ(model.held_bytes() > 4 * held, has_frozen);
    EXPECT_GE(model.held_bytes(), 4 * held);
    return fmt::format("{} {}", held, all);
  });
  int64_t sum = 0, all = 0;
  for (const std::string& text : texts) {
    const int64_t held = std::stoll(text);
    all = std::stoll(text.substr(text.find(' ')));
    EXPECT_LE(static_cast<double>(held), 0.25 * static_cast<double>(all) + (1 << 16));
    sum += held;
  }
  EXPECT_EQ(sum, all);
}

TEST(FetchedWeights, ARankHoldsItsShareAndOneBlockMore) {
  expect_share({});
  expect_share({"*.mlp.*"});
}

}  // namespace
}  // namespace xrun::fetched_weights_test

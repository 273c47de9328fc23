// Log-probs of every token of a pack.

#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/train/evaluate.h"
#include "core/train/models/policy.h"
#include "core/train/models/reference.h"
#include "tests/core/train/tiny_pairs.h"

namespace xrun::token_scores_test {
namespace {

TEST(TokenScores, MatchTrainingInAnyOrderOfSegments) {
  const TinyFolder folder;
  const auto policy = Policy::open(folder.model());
  for (const bool reversed : {false, true}) {
    for (const PackedBatch& pack : tiny_packs(tiny_pairs(4), 4, reversed)) {
      const std::vector<float> scores = token_scores(*policy, pack, {});
      ASSERT_EQ(scores.size(), pack.tokens.size());
      Batch batch({}, {pack});
      const at::Tensor wanted = policy->token_logprob(batch.micros()[0]->all()).detach();
      const float* values = wanted.const_data_ptr<float>();
      for (int64_t r = 0; r < pack.rows.size(); ++r) {
        const auto at = static_cast<size_t>(r);
        EXPECT_NEAR(scores[static_cast<size_t>(pack.rows.hidden[at] + 1)], values[r], 1e-5);
      }
      for (size_t s = 0; s + 1 < pack.cu_seqlens.size(); ++s) {
        for (int32_t t = pack.cu_seqlens[s]; t < pack.cu_seqlens[s + 1]; ++t) {
          EXPECT_EQ(std::isnan(scores[static_cast<size_t>(t)]), t == pack.cu_seqlens[s]) << t;
        }
      }
    }
  }
}

TEST(TokenScores, AnEmptyPackHasNoScores) {
  const TinyFolder folder;
  EXPECT_TRUE(token_scores(*Policy::open(folder.model()), PackedBatch(), {}).empty());
}

TEST(TokenScores, AReferenceEqualToThePolicyGivesTheSameScores) {
  const TinyFolder folder;
  const auto policy = Policy::open(folder.model());
  const auto reference = policy->reference();
  const PackedBatch pack = tiny_packs(tiny_pairs(2), 2)[0];
  const std::vector<float> a = token_scores(*policy, pack, {});
  const std::vector<float> b = token_scores(*reference, pack, {});
  for (size_t t = 0; t < a.size(); ++t) {
    EXPECT_EQ(std::isnan(a[t]), std::isnan(b[t]));
    if (std::isnan(a[t])) continue;
    EXPECT_EQ(a[t], b[t]);
  }
}

}  // namespace
}  // namespace xrun::token_scores_test

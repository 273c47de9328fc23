// The cache of a sequence being decoded against the same sequence as a pack, bit for bit.

#include "core/model/kv_cache.h"

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/model/ops/attention.h"
#include "tests/gradient_check.h"

namespace xrun::kv_cache_test {

namespace {

constexpr int64_t kLayers = 2, kHeads = 6, kGroups = 2, kHeadDim = 20;
constexpr double kScale = 0.3;

ModelConfig small_config() {
  ModelConfig config;
  config.layers = kLayers;
  config.heads = kHeads;
  config.kv_heads = kGroups;
  config.head_dim = kHeadDim;
  return config;
}

struct Sequence {
  at::Tensor q, k, v;

  Sequence(int64_t tokens, uint64_t seed, at::ScalarType type)
      : q(random_tensor({tokens, kHeads, kHeadDim}, seed, 2.0).to(type)),
        k(random_tensor({tokens, kGroups, kHeadDim}, seed + 1, 2.0).to(type)),
        v(random_tensor({tokens, kGroups, kHeadDim}, seed + 2).to(type)) {}

  at::Tensor attention(int64_t window) const {
    return varlen_attention(q, k, v, {{0, q.size(0)}, {}, window}, kScale);
  }
};

// Appends tokens [from, to) of the sequence to both layers; returns the attention of the last.
at::Tensor append(KvCache& cache, int64_t slot, const Sequence& s, int64_t from, int64_t to,
                  int64_t window) {
  const auto part = [&](const at::Tensor& x) { return x.narrow(0, from, to - from); };
  const AttentionLayout layout{{0, to - from}, {}, window};
  cache.use_slots({slot});
  at::Tensor y;
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    y = cache.attend(layer, part(s.q), part(s.k), part(s.v), layout, kScale);
  }
  cache.advance(layout.cu_seqlens);
  return y;
}

}  // namespace

TEST(KvCache, DecodedTokensHaveTheBitsOfThePack) {
  const at::NoGradGuard no_grad;
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    for (const int64_t window : {0, 70}) {
      for (const int64_t prompt : {1, 50, 64, 129}) {
        const int64_t tokens = prompt + 90;
        const Sequence s(tokens, 5, type);
        const at::Tensor packed = s.attention(window);
        KvCache cache(small_config(), type, 1);
        cache.open(0, tokens);
        EXPECT_TRUE(append(cache, 0, s, 0, prompt, window).equal(packed.narrow(0, 0, prompt)));
        for (int64_t t = prompt; t < tokens; ++t) {
          ASSERT_TRUE(append(cache, 0, s, t, t + 1, window).equal(packed.narrow(0, t, 1)))
              << type << " window " << window << " prompt " << prompt << " token " << t;
        }
      }
    }
  }
}

// Slots of other capacities end in a block of another width.
TEST(KvCache, AForkedSequenceGoesOnWithTheSameBits) {
  const at::NoGradGuard no_grad;
  for (const int64_t prompt : {30, 64, 150}) {
    const Sequence s(prompt + 3, 7, at::kFloat);
    const at::Tensor packed = s.attention(0);
    KvCache cache(small_config(), at::kFloat, 2);
    cache.open(0, prompt);
    cache.open(1, prompt + 40);
    append(cache, 0, s, 0, prompt, 0);
    cache.fork(0, 1);
    for (int64_t t = prompt; t < prompt + 3; ++t) {
      EXPECT_TRUE(append(cache, 1, s, t, t + 1, 0).equal(packed.narrow(0, t, 1))) << t;
    }
  }
}

TEST(KvCache, RefusesATreeAndMoreThanItsCapacity) {
  KvCache cache(small_config(), at::kFloat, 1);
  cache.open(0, 20);
  const Sequence s(40, 3, at::kFloat);
  cache.use_slots({0});
  EXPECT_THROW(cache.attend(0, s.q, s.k, s.v, {{0, 40}, {-1}}, kScale), Error);
  EXPECT_THROW(cache.attend(0, s.q, s.k, s.v, {{0, 40}}, kScale), Error);
}

}  // namespace xrun::kv_cache_test

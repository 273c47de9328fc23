// The cache of a sequence being decoded against the same sequence as a pack, bit for bit.

#include "core/model/kv_cache.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/model/ops/attention.h"
#include "tests/error_of.h"
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

struct CachedSequence {
  at::Tensor q, k, v;

  CachedSequence(int64_t tokens, uint64_t seed, at::ScalarType type)
      : q(random_tensor({tokens, kHeads, kHeadDim}, seed, 2.0).to(type)),
        k(random_tensor({tokens, kGroups, kHeadDim}, seed + 1, 2.0).to(type)),
        v(random_tensor({tokens, kGroups, kHeadDim}, seed + 2).to(type)) {}

  at::Tensor attention(int64_t window) const {
    return varlen_attention(q, k, v, {{0, q.size(0)}, {}, window}, kScale);
  }
};

// Appends tokens [from, to) of the sequence to both layers; returns the attention of the last.
at::Tensor append(KvCache& cache, int64_t slot, const CachedSequence& s, int64_t from, int64_t to,
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
        const CachedSequence s(tokens, 5, type);
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

TEST(KvCache, TokensAppendedInPiecesHaveTheBitsOfThePack) {
  const at::NoGradGuard no_grad;
  for (const int64_t window : {0, 70}) {
    const CachedSequence s(300, 11, at::kFloat);
    const at::Tensor packed = s.attention(window);
    for (const std::vector<int64_t>& ends :
         {std::vector<int64_t>{3, 7, 64, 65, 190, 300}, {128, 129, 300}, {100, 299, 300}}) {
      KvCache cache(small_config(), at::kFloat, 1);
      cache.open(0, 300);
      int64_t from = 0;
      for (const int64_t to : ends) {
        EXPECT_TRUE(append(cache, 0, s, from, to, window).equal(packed.narrow(0, from, to - from)))
            << "window " << window << ", tokens " << from << " to " << to;
        from = to;
      }
    }
  }
}

TEST(KvCache, ForkedSequencesShareFullBlocksAndGoOnWithTheSameBits) {
  const at::NoGradGuard no_grad;
  constexpr int64_t kSamples = 11;  // more than one call of the kernel takes
  for (const int64_t prompt : {30, 64, 150}) {
    KvCache cache(small_config(), at::kFloat, kSamples);
    const CachedSequence s(prompt, 7, at::kFloat);
    cache.open(0, prompt + 3);
    append(cache, 0, s, 0, prompt, 0);
    const int64_t alone = cache.slot_bytes(prompt + 3), own = cache.slot_bytes(prompt + 3, prompt);
    for (int64_t i = 1; i < kSamples; ++i) {
      cache.open(i, prompt + 3, prompt);
      EXPECT_EQ(cache.bytes(), alone + i * own) << "before the fork";
      cache.fork(0, i);
    }
    EXPECT_EQ(cache.bytes(), alone + (kSamples - 1) * own);
    std::vector<CachedSequence> tails;
    std::vector<int64_t> slots, boundaries = {0};
    for (int64_t i = 0; i < kSamples; ++i) {
      tails.emplace_back(3, 20 + 3 * static_cast<uint64_t>(i), at::kFloat);
      slots.push_back(i);
      boundaries.push_back(i + 1);
    }
    const auto joined = [&](at::Tensor CachedSequence::*x, int64_t t) {
      std::vector<at::Tensor> rows;
      for (const CachedSequence& tail : tails) rows.push_back((tail.*x).narrow(0, t, 1));
      return at::cat(rows);
    };
    for (int64_t t = 0; t < 3; ++t) {
      cache.use_slots(slots);
      at::Tensor y;
      for (int64_t layer = 0; layer < kLayers; ++layer) {
        y = cache.attend(layer, joined(&CachedSequence::q, t), joined(&CachedSequence::k, t),
                         joined(&CachedSequence::v, t), {boundaries}, kScale);
      }
      cache.advance(boundaries);
      for (int64_t i = 0; i < kSamples; ++i) {
        CachedSequence whole = s;
        const CachedSequence& tail = tails[static_cast<size_t>(i)];
        whole.q = at::cat({s.q, tail.q}), whole.k = at::cat({s.k, tail.k});
        whole.v = at::cat({s.v, tail.v});
        EXPECT_TRUE(y[i].equal(whole.attention(0)[prompt + t])) << prompt << ", sample " << i;
      }
    }
  }
}

TEST(KvCache, AClearedSlotLeavesTheSharedTokensOfOthers) {
  const at::NoGradGuard no_grad;
  const CachedSequence s(70, 7, at::kFloat), other(64, 9, at::kFloat);
  const at::Tensor packed = s.attention(0);
  KvCache cache(small_config(), at::kFloat, 2);
  cache.open(0, 70);
  cache.open(1, 70, 64);
  append(cache, 0, s, 0, 64, 0);
  cache.fork(0, 1);
  cache.truncate(0, 0);
  append(cache, 0, other, 0, 64, 0);
  EXPECT_TRUE(append(cache, 1, s, 64, 70, 0).equal(packed.narrow(0, 64, 6)));
  cache.close(1);
  EXPECT_EQ(cache.bytes(), cache.slot_bytes(70));
}

TEST(KvCache, ATruncatedSlotHasTheBitsOfThePackAndLeavesSharedBlocksAlone) {
  const at::NoGradGuard no_grad;
  const CachedSequence s(150, 7, at::kFloat), other(150, 9, at::kFloat);
  for (const int64_t length : {64, 100, 127, 128}) {
    CachedSequence changed = s;  // up to `length`, then other tokens
    for (at::Tensor CachedSequence::*x :
         {&CachedSequence::q, &CachedSequence::k, &CachedSequence::v}) {
      changed.*x = at::cat({(s.*x).narrow(0, 0, length), (other.*x).narrow(0, 0, 150 - length)});
    }
    KvCache cache(small_config(), at::kFloat);
    cache.open(0, 128);
    append(cache, 0, s, 0, 128, 0);
    cache.open(1, 150, 128);
    cache.fork(0, 1);
    cache.truncate(0, length);
    cache.reserve(0, 150);
    EXPECT_EQ(cache.length(0), length);
    EXPECT_TRUE(append(cache, 0, changed, length, 150, 0)
                    .equal(changed.attention(0).narrow(0, length, 150 - length)))
        << length;
    EXPECT_TRUE(append(cache, 1, s, 128, 150, 0).equal(s.attention(0).narrow(0, 128, 22)))
        << length;
    EXPECT_EQ(error_of([&] { cache.reserve(0, 149); }),
              "a slot of 149 tokens is too small for the 150 that it holds");
    EXPECT_EQ(error_of([&] { cache.truncate(0, 151); }),
              "a slot of 150 tokens cannot be cut to 151");
  }
}

TEST(KvCache, AReservationIsCountedUntilItIsGivenUp) {
  const at::NoGradGuard no_grad;
  KvCache cache(small_config(), at::kFloat);
  const CachedSequence s(70, 3, at::kFloat);
  cache.open(0, 300);
  append(cache, 0, s, 0, 70, 0);
  EXPECT_EQ(cache.bytes(), cache.slot_bytes(300));
  cache.reserve(0, 70);
  EXPECT_EQ(cache.bytes(), cache.slot_bytes(70));
  cache.truncate(0, 64);
  EXPECT_EQ(cache.bytes(), cache.slot_bytes(70)) << "room for the six tokens remains";
}

TEST(KvCache, RefusesATreeAndMoreThanItsCapacity) {
  KvCache cache(small_config(), at::kFloat, 1);
  cache.open(0, 20);
  const CachedSequence s(40, 3, at::kFloat);
  cache.use_slots({0});
  EXPECT_EQ(error_of([&] {
              cache.attend(0, s.q, s.k, s.v, {{0, 40}, {-1}}, kScale);
            }),
            "the cache takes segments, not a tree of 1 nodes");
  EXPECT_EQ(error_of([&] {
              cache.attend(0, s.q, s.k, s.v, {{0, 40}}, kScale);
            }),
            "a sequence of 40 tokens exceeds the slot's capacity of 20");
}

}  // namespace xrun::kv_cache_test

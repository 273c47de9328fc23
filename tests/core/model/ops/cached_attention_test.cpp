// Attention over a cache by library calls against the CPU's kernel over whole sequences.

#include "core/model/ops/cached_attention.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>

#include "core/base/error.h"
#include "core/model/ops/attention.h"
#include "core/model/ops/op.h"
#include "tests/error_of.h"
#include "tests/gradient_check.h"
#include "tests/tensor_difference.h"

namespace xrun::cached_attention_test {
namespace {

constexpr int64_t kBlock = 64, kPlaces = 90;
constexpr double kScale = 0.3;

struct HeadCounts {
  int64_t heads, kv_heads, head_dim;
};

// A sequence whose keys begin with the first `shared` ones of its group; the last `fresh` tokens
// are new.
struct TestSequence {
  int64_t group, shared, length, fresh;
};

// The cache of sequences, and the attention of their new tokens by the CPU's kernel.
struct TestCache {
  HeadCounts heads;
  at::ScalarType type;
  int64_t window;
  at::Tensor keys, values;
  std::vector<CachedSequence> sequences;
  std::vector<at::Tensor> queries, wanted;
  std::map<std::pair<int64_t, int64_t>, int64_t> shared_blocks;  // of a group, by number
  int64_t next = 0;

  TestCache(HeadCounts of, at::ScalarType t, int64_t w)
      : heads(of),
        type(t),
        window(w),
        keys(at::zeros({of.kv_heads, kPlaces, kBlock, of.head_dim}, t)),
        values(at::zeros({of.kv_heads, kPlaces, kBlock, of.head_dim}, t)) {}

  // Random rows that are the same for equal seeds, [tokens, n, K].
  at::Tensor rows(int64_t tokens, int64_t n, int64_t seed, double scale = 1) const {
    return random_tensor({tokens, n, heads.head_dim}, static_cast<uint64_t>(seed), scale).to(type);
  }

  void add(const TestSequence& s) {
    const int64_t own = s.length - s.shared, seed = 100 + 10 * std::ssize(sequences);
    const int64_t group = 1000 * (s.group + 1);
    const auto joined = [&](int64_t of, double scale) {
      return at::cat({rows(s.shared, heads.kv_heads, group + of, scale),
                      rows(own, heads.kv_heads, seed + of, scale)});
    };
    const at::Tensor k = joined(1, 2), v = joined(2, 1);
    CachedSequence cached{s.fresh, s.length, {}};
    for (int64_t first = 0; first < s.length; first += kBlock) {
      const bool is_shared = first + kBlock <= s.shared;
      const auto known = shared_blocks.find({s.group, first});
      // Places are not in the order of positions.
      const int64_t place =
          is_shared && known != shared_blocks.end() ? known->second : (++next * 7) % kPlaces;
      if (is_shared) shared_blocks[{s.group, first}] = place;
      const int64_t n = std::min(kBlock, s.length - first);
      const auto put = [&](at::Tensor& pool, const at::Tensor& x) {
        pool.select(1, place).narrow(1, 0, n).copy_(x.narrow(0, first, n).transpose(0, 1));
      };
      put(keys, k);
      put(values, v);
      cached.blocks.push_back(place);
    }
    ASSERT_LT(next, kPlaces);
    sequences.push_back(cached);
    const at::Tensor q = rows(s.length, heads.heads, seed + 3, 2);
    queries.push_back(q.narrow(0, s.length - s.fresh, s.fresh));
    wanted.push_back(varlen_attention(q, k, v, {{0, s.length}, {}, window}, kScale)
                         .narrow(0, s.length - s.fresh, s.fresh));
  }

  CachedCalls calls() const {
    return cached_calls(sequences, {heads.heads, heads.kv_heads, heads.head_dim, kBlock},
                        c10::kCPU);
  }
  at::Tensor got() const {
    return cached_attention(at::cat(queries), keys, values, calls(), kScale, window);
  }
};

// The tolerances of attention in docs/numerics.md.
double tolerance(at::ScalarType type) { return type == at::kFloat ? 1e-5 : 5e-2; }

void expect_kernel(const std::vector<TestSequence>& sequences) {
  const at::NoGradGuard no_grad;
  for (const HeadCounts& heads : {HeadCounts{6, 2, 20}, {4, 4, 16}, {8, 1, 7}}) {
    for (const auto type : {at::kFloat, at::kBFloat16}) {
      for (const int64_t window : {0, 70}) {
        TestCache cache(heads, type, window);
        for (const TestSequence& s : sequences) cache.add(s);
        EXPECT_LT(relative_difference(cache.got(), at::cat(cache.wanted)), tolerance(type))
            << heads.heads << " heads, " << type << ", window " << window;
      }
    }
  }
}

}  // namespace

TEST(CachedAttention, DecodedTokensSeeTheSharedPromptAndTheirOwnTail) {
  // Two groups and a sequence alone; 129 tokens have an own tail of the new token only.
  expect_kernel({{0, 128, 150, 1},
                 {0, 128, 129, 1},
                 {0, 128, 300, 1},
                 {1, 0, 77, 1},
                 {2, 64, 80, 1},
                 {2, 64, 65, 1}});
}

TEST(CachedAttention, OneGroupNeedsNoRowsGathered) {
  expect_kernel({{0, 128, 140, 1}, {0, 128, 150, 1}, {0, 128, 160, 1}});
}

TEST(CachedAttention, DraftsOfSeveralLengthsArePadded) {
  expect_kernel({{0, 64, 100, 5}, {0, 64, 90, 1}, {0, 64, 130, 3}, {1, 0, 40, 2}});
}

TEST(CachedAttention, AChunkFollowsTheKeysOfItsPrompt) {
  expect_kernel({{0, 0, 250, 100}});
  expect_kernel({{0, 0, 128, 64}});
}

TEST(CachedAttention, FreshAndEmptySequencesStandBesideOthers) {
  expect_kernel({{0, 0, 70, 70}, {1, 64, 70, 0}, {1, 64, 90, 2}, {1, 64, 80, 1}, {2, 0, 1, 1}});
}

TEST(CachedAttention, NoTokensGiveNoRows) {
  TestCache cache({6, 2, 20}, at::kFloat, 0);
  EXPECT_EQ(cached_attention(at::zeros({0, 6, 20}), cache.keys, cache.values, cache.calls(), 1, 0)
                .sizes(),
            at::IntArrayRef({0, 6, 20}));
}

TEST(CachedAttention, SharedKeysAreGatheredOnceForTheirGroup) {
  const at::NoGradGuard no_grad;
  TestCache cache({6, 2, 20}, at::kFloat, 0);
  for (int64_t i = 0; i < 8; ++i) cache.add({0, 192, 200 + i, 1});
  const CachedCalls calls = cache.calls();
  ASSERT_EQ(calls.shared.size(), 1u);
  EXPECT_EQ(calls.shared[0].blocks.sizes(), at::IntArrayRef({1, 3}));
  EXPECT_EQ(calls.shared[0].queries.sizes(), at::IntArrayRef({1, 8}));
  ASSERT_EQ(calls.own.size(), 1u);
  EXPECT_EQ(calls.own[0].blocks.sizes(), at::IntArrayRef({8, 1}));
  EXPECT_FALSE(calls.own[0].rows.defined()) << "all rows, in order";
}

// A long chunk beside others: its rows are cut, and padding is bounded.
TEST(CachedAttention, CallsAreBoundedAndTakeEveryRowOnce) {
  const CachedSizes sizes{32, 8, 128, kBlock};
  std::vector<CachedSequence> sequences;
  int64_t rows = 0, place = 0;
  for (int64_t i = 0; i < 40; ++i) {
    CachedSequence s{i == 7 ? 4096 : 1, 64 * (1 + i % 5 * 40), {}};
    if (i == 7) s.length = 8192;
    for (int64_t b = 0; b * kBlock < s.length; ++b) s.blocks.push_back(place++);
    rows += s.tokens;
    sequences.push_back(s);
  }
  const CachedCalls calls = cached_calls(sequences, sizes, c10::kCPU);
  EXPECT_TRUE(calls.shared.empty());
  at::Tensor seen = at::zeros({rows}, at::kLong);
  for (const CachedCall& call : calls.own) {
    const int64_t keys = call.blocks.numel() * kBlock;
    EXPECT_LE(keys * call.queries.size(1) * sizes.heads, kCachedCallElements);
    EXPECT_LE(keys * 2 * sizes.kv_heads * sizes.head_dim, kCachedCallElements);
    seen.index_add_(0, call.rows, at::full(call.rows.sizes(), 1, at::kLong));
  }
  EXPECT_TRUE(seen.eq(1).all().item<bool>());
}

TEST(CachedAttention, RowsWithoutKeysGiveZerosAndMinusInfinity) {
  using Signature = std::tuple<at::Tensor, at::Tensor>(
      const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&,
      const at::Tensor&, const at::Tensor&, double, int64_t);
  const auto op = find_op<Signature>("xrun::cached_attention");
  const at::Tensor q = random_tensor({1, 2, 4, 8}, 1), pool = random_tensor({2, 3, 4, 8}, 2);
  const auto index = [](int64_t value, std::vector<int64_t> sizes) {
    return at::full(sizes, value, at::kLong);
  };
  // Keys at 0 to 3, rows at 9 with a window of 5.
  const auto [out, lse] = op.call(q, pool, pool, index(2, {1, 1}), index(0, {1}), index(4, {1}),
                                  index(9, {1, 2}), 1, 5);
  EXPECT_EQ(out.abs().max().item<float>(), 0);
  EXPECT_TRUE(lse.eq(-std::numeric_limits<double>::infinity()).all().item<bool>());
  EXPECT_EQ(error_of([&] {
              op.call(q, random_tensor({3, 3, 4, 8}, 2), pool, index(2, {1, 1}), index(0, {1}),
                      index(4, {1}), index(9, {1, 2}), 1, 0);
            }),
            "cached_attention: q is [1, 2, 4, 8], keys [3, 3, 4, 8]; wanted q [B, n, H, K] and "
            "keys [J, P, block, K] with J dividing H");
  EXPECT_EQ(error_of([&] {
              op.call(q, pool, pool, index(2, {1, 1}), index(0, {2}), index(4, {1}),
                      index(9, {1, 2}), 1, 0);
            }),
            "cached_attention: start is [2], wanted [1]");
}

}  // namespace xrun::cached_attention_test

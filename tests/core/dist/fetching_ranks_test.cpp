// Fetches of some ranks while others compute, fetch something else or wait at a collective.

#include "core/dist/fetching_ranks.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/core/dist/thread_ranks.h"
#include "tests/error_of.h"

namespace xrun::fetching_ranks_test {
namespace {

// Bucket b holds b * 1000 + 0, 1, ..., divided into ranges of 2 + rank elements; bucket 7 in fp64.
class NumberSource : public RangeSource {
 public:
  NumberSource(int64_t rank, int64_t size, double sign = 1)
      : rank_(rank), size_(size), sign_(sign) {}
  std::vector<int64_t> sizes(int64_t /*bucket*/) const override {
    std::vector<int64_t> sizes;
    for (int64_t r = 0; r < size_; ++r) sizes.push_back(2 + r);
    return sizes;
  }
  at::TensorOptions options(int64_t bucket) const override {
    return at::TensorOptions().dtype(bucket == 7 ? at::kDouble : at::kFloat);
  }
  at::Tensor range(int64_t bucket) override {
    int64_t begin = 0;
    for (int64_t r = 0; r < rank_; ++r) begin += 2 + r;
    return whole(bucket).narrow(0, begin, 2 + rank_).contiguous();
  }
  at::Tensor whole(int64_t bucket) const {
    const int64_t elements = 2 * size_ + size_ * (size_ - 1) / 2;
    return at::arange(elements).add(bucket * 1000).mul(sign_).to(options(bucket).dtype());
  }

 private:
  int64_t rank_, size_;
  double sign_;
};

struct FetchingFixture {
  explicit FetchingFixture(Ranks& ranks) : fetching(ranks) {
    fetching.begin_meetings();
    for (int64_t i = 0; i < 2; ++i) {
      sources.push_back(
          std::make_shared<NumberSource>(ranks.rank(), ranks.size(), i == 0 ? 1 : -1));
      fetching.offer([this, i] {
        ++loads;
        return sources[static_cast<size_t>(i)];
      });
    }
  }
  void expect(int64_t source, int64_t bucket, int64_t next = -1) {
    EXPECT_TRUE(at::equal(fetching.fetch(source, bucket, next),
                          sources[static_cast<size_t>(source)]->whole(bucket)))
        << source << " " << bucket;
  }
  FetchingRanks fetching;
  std::vector<std::shared_ptr<NumberSource>> sources;
  int loads = 0;
};

TEST(FetchingRanks, AllRanksFetchOneBucket) {
  on_threads(3, [](Ranks& ranks) {
    FetchingFixture world(ranks);
    for (int64_t bucket = 0; bucket < 5; ++bucket) world.expect(0, bucket, bucket + 1);
    world.fetching.barrier("end");
    EXPECT_EQ(world.loads, 1) << "a source that nobody wants is not loaded";
  });
}

TEST(FetchingRanks, RanksFetchDifferentBucketsTypesAndSourcesAtATime) {
  on_threads(4, [](Ranks& ranks) {
    FetchingFixture world(ranks);
    for (int64_t step = 0; step < 6; ++step) {
      world.expect((step + ranks.rank()) % 2, 3 + (step * ranks.rank()) % 5,
                   step % 2 == 0 ? -1 : 3 + ((step + 1) * ranks.rank()) % 5);
    }
    world.fetching.barrier("end");
  });
}

TEST(FetchingRanks, ARankAtACollectiveServesHoweverOftenOthersFetch) {
  on_threads(3, [](Ranks& ranks) {
    FetchingFixture world(ranks);
    for (int round = 0; round < 3; ++round) {
      for (int64_t k = 0; k < ranks.rank() * 4; ++k) world.expect(1, k, k % 3 == 0 ? k + 1 : 99);
      const auto all = world.fetching.gather("texts", fmt::format("{}", ranks.rank()));
      EXPECT_EQ(all, (std::vector<std::string>{"0", "1", "2"}));
    }
    EXPECT_GE(world.loads, 1) << "rank 0 fetches nothing itself";
  });
}

TEST(FetchingRanks, ABucketThatWasSentAheadIsSentOnce) {
  on_threads(2, [](Ranks& ranks) {
    FetchingFixture world(ranks);
    world.expect(0, 1, 2);
    const int64_t before = world.fetching.fetched_bytes();
    world.expect(0, 2);
    EXPECT_EQ(world.fetching.fetched_bytes(), before);
    world.expect(0, 3, 4);
    world.fetching.forget_ahead();  // the values have changed
    world.expect(0, 4);
    EXPECT_GT(world.fetching.fetched_bytes(), before);
    world.fetching.barrier("end");
  });
}

TEST(FetchingRanks, NothingIsFetchedBeforeTheRanksMeet) {
  on_threads(1, [](Ranks& ranks) {
    FetchingRanks fetching(ranks);
    EXPECT_TRUE(
        throws<Error>("a rank fetches before the ranks meet", [&] { fetching.fetch(0, 0); }));
  });
}

}  // namespace
}  // namespace xrun::fetching_ranks_test

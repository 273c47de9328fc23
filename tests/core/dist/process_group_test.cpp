// Process groups of threads: each joins as a rank of its own, over the loopback interface.

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "core/base/error.h"
#include "tests/core/dist/joined_ranks.h"
#include "tests/error_of.h"

namespace xrun {
namespace process_group_test {

void expect_ok(const std::vector<std::string>& errors) {
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

TEST(ProcessGroup, GathersTextsOfAnyLength) {
  expect_ok(run_ranks(3, [](Ranks& ranks) {
    for (const size_t length : {0, 1, 495, 496, 497, 10000}) {
      const std::string own(length * ranks.rank(), static_cast<char>('a' + ranks.rank()));
      const std::vector<std::string> all = ranks.gather("texts", own);
      ASSERT_EQ(all.size(), 3u);
      for (int64_t r = 0; r < 3; ++r) {
        EXPECT_EQ(all[r], std::string(length * r, static_cast<char>('a' + r)));
      }
    }
  }));
}

TEST(ProcessGroup, BroadcastsTheTextOfTheRoot) {
  expect_ok(run_ranks(2, [](Ranks& ranks) {
    const std::string own = std::string(ranks.rank() == 1 ? 2000 : 3, 'x');
    EXPECT_EQ(ranks.broadcast("text", own, 1), std::string(2000, 'x'));
    EXPECT_EQ(ranks.broadcast("text", own, 0), "xxx");
  }));
}

TEST(ProcessGroup, BroadcastsTensorsOfEveryDtype) {
  expect_ok(run_ranks(2, [](Ranks& ranks) {
    for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf, at::kLong,
                                       at::kInt, at::kByte, at::kBool}) {
      const at::Tensor wanted = at::arange(7).remainder(2).to(dtype);
      const at::Tensor got = ranks.rank() == 1 ? wanted.clone() : at::zeros({7}, dtype);
      ranks.broadcast("tensor", got, 1);
      EXPECT_TRUE(at::equal(got, wanted)) << c10::toString(dtype);
    }
    ranks.broadcast("empty", at::empty({0}), 0);
  }));
}

// Piece k of rank r has r + 2 k elements of value 10 r + k; some are empty.
TEST(ProcessGroup, ExchangesPiecesOfDifferentSizes) {
  expect_ok(run_ranks(4, [](Ranks& ranks) {
    const int64_t n = ranks.size(), me = ranks.rank();
    std::vector<int64_t> in_sizes, out_sizes;
    std::vector<float> in_values, wanted;
    for (int64_t k = 0; k < n; ++k) {
      in_sizes.push_back(me + 2 * k);
      in_values.insert(in_values.end(), me + 2 * k, static_cast<float>(10 * me + k));
      out_sizes.push_back(k + 2 * me);
      wanted.insert(wanted.end(), k + 2 * me, static_cast<float>(10 * k + me));
    }
    const auto count = static_cast<int64_t>(wanted.size());
    const at::Tensor in = at::empty({static_cast<int64_t>(in_values.size())});
    std::copy(in_values.begin(), in_values.end(), in.mutable_data_ptr<float>());
    const at::Tensor out = at::zeros({count});
    ranks.exchange("pieces", out, out_sizes, in, in_sizes)->wait();
    EXPECT_EQ(std::vector<float>(out.const_data_ptr<float>(), out.const_data_ptr<float>() + count),
              wanted);
  }));
}

TEST(ProcessGroup, ExchangesNothingAtAll) {
  expect_ok(run_ranks(2, [](Ranks& ranks) {
    ranks.exchange("nothing", at::empty({0}), {0, 0}, at::empty({0}), {0, 0})->wait();
  }));
}

TEST(ProcessGroup, GathersPiecesInPlaceAndFromElsewhere) {
  expect_ok(run_ranks(3, [](Ranks& ranks) {
    const std::vector<int64_t> sizes = {2, 0, 3};
    const at::Tensor wanted = at::arange(5, at::kFloat);
    const int64_t begin = ranks.rank() == 0 ? 0 : 2;
    const at::Tensor out = at::zeros({5});
    const at::Tensor in = wanted.narrow(0, begin, sizes[ranks.rank()]).clone();
    ranks.all_gather("elsewhere", out, sizes, in)->wait();
    EXPECT_TRUE(at::equal(out, wanted));
    const at::Tensor again = at::zeros({5});
    at::Tensor own = again.narrow(0, begin, sizes[ranks.rank()]);
    own.copy_(in);
    ranks.all_gather("in place", again, sizes, own)->wait();
    EXPECT_TRUE(at::equal(again, wanted));
  }));
}

TEST(ProcessGroup, SeveralCollectivesMayBePending) {
  expect_ok(run_ranks(2, [](Ranks& ranks) {
    std::vector<at::Tensor> outs;
    std::vector<std::unique_ptr<PendingCollective>> pending;
    for (int i = 0; i < 8; ++i) {
      outs.push_back(at::zeros({2000}));
      const at::Tensor in = at::full({1000}, static_cast<float>(i));
      pending.push_back(ranks.all_gather("bucket", outs.back(), {1000, 1000}, in));
    }
    for (int i = 7; i >= 0; --i) pending[i]->wait();
    for (int i = 0; i < 8; ++i) EXPECT_TRUE(at::equal(outs[i], at::full({2000}, float(i))));
  }));
}

TEST(ProcessGroup, RefusesSizesThatDoNotAddUp) {
  for (const std::string& error : run_ranks(2, [](Ranks& ranks) {
         ranks.barrier("begin");  // a rank that ends first must not be missed by one that joins
         ranks.all_gather("bucket 3", at::empty({5}), {2, 2}, at::empty({2}));
       })) {
    EXPECT_EQ(error, "\"bucket 3\": the pieces have 4 elements, the tensor has 5");
  }
}

// Without the check too: their blocks look alike to c10d.
TEST(ProcessGroup, RanksInDifferentGathersAreTold) {
  for (const std::string& error : run_ranks(
           2, [](Ranks& ranks) { ranks.gather(ranks.rank() == 0 ? "metrics" : "answers", "="); })) {
    EXPECT_EQ(error.substr(0, error.find('\n')),
              "rank 1 of 2: before step 0: it waits in \"answers\" where rank 0 waits in "
              "\"metrics\": the ranks do not make the same calls");
  }
}

TEST(ProcessGroup, CheckNamesTheDifferingCall) {
  for (const std::string& error : run_ranks(
           2, [](Ranks& ranks) { ranks.barrier(ranks.rank() == 0 ? "a" : "b"); }, true)) {
    EXPECT_EQ(error,
              "collective 1 differs between ranks: rank 0 calls \"a\" barrier, rank 1 calls \"b\" "
              "barrier");
  }
}

TEST(ProcessGroup, CheckNamesShapesAndDtypes) {
  for (const std::string& error : run_ranks(
           2,
           [](Ranks& ranks) {
             ranks.broadcast("weights", at::zeros({2, 3 + ranks.rank()}, at::kBFloat16), 0);
           },
           true)) {
    EXPECT_EQ(error,
              "collective 1 differs between ranks: rank 0 calls \"weights\" broadcast of BFloat16 "
              "[2, 3] from rank 0, rank 1 calls \"weights\" broadcast of BFloat16 [2, 4] from rank "
              "0");
  }
}

TEST(ProcessGroup, CheckNamesPiecesThatDoNotFit) {
  for (const std::string& error : run_ranks(
           2,
           [](Ranks& ranks) {
             const int64_t extra = ranks.rank();  // rank 1 expects one element more of rank 0
             ranks.exchange("bucket", at::zeros({2 + extra}), {1 + extra, 1}, at::zeros({2}),
                            {1, 1});
           },
           true)) {
    EXPECT_EQ(error,
              "collective 1 \"bucket\" differs between ranks: rank 0 sends 1 elements to rank 1, "
              "which expects 2");
  }
}

TEST(ProcessGroup, CheckLetsEqualCallsPass) {
  expect_ok(run_ranks(
      2,
      [](Ranks& ranks) {
        EXPECT_EQ(ranks.gather("texts", std::to_string(ranks.rank()))[1], "1");
        ranks.exchange("none", at::empty({0}), {0, 0}, at::empty({0}), {0, 0})->wait();
      },
      true));
}

TEST(ProcessGroup, OthersThrowWhenARankLeaves) {
  const std::vector<std::string> errors = run_ranks(3, [](Ranks& ranks) {
    if (ranks.rank() == 1) throw Error("enough");
    ranks.barrier("metrics");
  });
  EXPECT_EQ(errors[1], "enough");
  for (int64_t r : {0, 2}) {
    EXPECT_EQ(errors[r].substr(0, errors[r].find('\n')),
              "rank 1 of 3: before step 0: it has left the run, and others wait for it");
  }
}

// Rank 1 of 3 fails while the others wait in calls of different numbers.
TEST(ProcessGroup, RanksThatStopApartMakeCollectivesAgain) {
  std::atomic<int> begun = 0;
  expect_ok(run_ranks(3, [&](Ranks& ranks) {
    const int64_t me = ranks.rank();
    const at::Tensor own = at::full({1}, static_cast<float>(me));
    const at::Tensor out = at::zeros({3}), lost = at::zeros({3});
    const auto weights = ranks.all_gather("weights", out, {1, 1, 1}, own);
    std::unique_ptr<PendingCollective> gradients;
    std::string error = "no luck";
    if (me != 1) {
      gradients = ranks.all_gather("gradients", lost, {1, 1, 1}, own);
      ++begun;
      error = error_of([&] { me == 0 ? gradients->wait() : ranks.barrier("metrics"); });
      EXPECT_EQ(error.substr(0, error.find('\n')), "rank 1 of 3: before step 0: no luck");
    }
    // A call that begins after the error throws at once.
    while (me == 1 && begun < 2) std::this_thread::yield();
    EXPECT_EQ(ranks.stop_together(error), Stopped::kApart);
    EXPECT_EQ(ranks.gather("the state", std::to_string(me))[2], "2");
    weights->wait();  // all ranks had begun it
    EXPECT_TRUE(at::equal(out, at::arange(3, at::kFloat)));
    if (me == 2) {
      EXPECT_EQ(error_of([&] { gradients->wait(); }),
                "a collective was left when another rank had an error");
    }
    EXPECT_TRUE(ranks.fails_together());
  }));
}

TEST(ProcessGroup, OtherBuildsAreRefusedByAll) {
  for (const std::string& error : run_ranks(
           2, [](Ranks&) {}, false,
           [](int64_t r) {
             return fmt::format("torch 2.11.0\nengine {}\n", r == 0 ? "ab" : "ac");
           })) {
    EXPECT_EQ(
        error,
        "ranks 0 and 1 run different builds of xrun (engine ab and engine ac); start the same "
        "one on every machine");
  }
}

}  // namespace process_group_test
}  // namespace xrun

// Work of several ranks succeeds on all or fails on all.

#include "core/dist/agreement.h"

#include <gtest/gtest.h>

#include <csignal>

#include "core/base/interrupt.h"
#include "core/dist/rank_message.h"
#include "tests/error_of.h"
#include "tests/forked_ranks.h"

namespace xrun::agreement_test {
namespace {

TEST(Agreement, ResultsComeInRankOrder) {
  for (const std::string& text : on_ranks(3, [](Ranks* ranks) {
         std::string all;
         for (const std::string& one :
              gather_results(ranks, "work", [&] { return std::to_string(10 * ranks->rank()); })) {
           all += one + " ";
         }
         return all;
       })) {
    EXPECT_EQ(text, "0 10 20 ");
  }
}

TEST(Agreement, WithoutRanksItIsTheWorkAlone) {
  EXPECT_EQ(gather_results(nullptr, "work", [] { return "a"; }), std::vector<std::string>{"a"});
  EXPECT_EQ(message_of<UsageError>([] { agree(nullptr, "work", [] { throw UsageError("no"); }); }),
            "no");
  EXPECT_TRUE(is_first_rank(nullptr));
}

TEST(Agreement, TheLowestFailureIsNamedOnEveryOtherRank) {
  const auto texts = on_ranks(4, [](Ranks* ranks) -> std::string {
    try {
      agree(ranks, "work", [&] {
        if (ranks->rank() == 2) throw UsageError("optim.lr is 0");
        if (ranks->rank() == 3) throw Error("disk full");
      });
    } catch (const UsageError& error) {
      return std::string("usage: ") + error.what();
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  });
  EXPECT_EQ(texts[0], "usage: rank 2 of 4: optim.lr is 0");
  EXPECT_EQ(texts[1], texts[0]);
  EXPECT_EQ(texts[2], "usage: optim.lr is 0");
  EXPECT_EQ(texts[3], "disk full");
}

TEST(Agreement, WorkOfTheFirstRankIsDoneOnce) {
  for (const std::string& text : on_ranks(3, [](Ranks* ranks) {
         int calls = 0;
         on_first_rank(ranks, "work", [&] { ++calls; });
         EXPECT_EQ(calls, ranks->rank() == 0 ? 1 : 0);
         return from_first_rank(ranks, "text",
                                [&] { return "of " + std::to_string(ranks->rank()); });
       })) {
    EXPECT_EQ(text, "of 0");
  }
}

TEST(Agreement, ASignalOfOneRankStopsAll) {
  for (const std::string& text : on_ranks(2, [](Ranks* ranks) -> std::string {
         EXPECT_FALSE(agree_on_interrupt(ranks, "before"));
         if (ranks->rank() == 1) request_interrupt(SIGINT);
         EXPECT_TRUE(agree_on_interrupt(ranks, "after"));
         try {
           agree(ranks, "work", [&] {
             if (ranks->rank() == 1) throw Interrupted(SIGINT);
           });
         } catch (const Interrupted& stop) {
           return std::to_string(stop.signal_number()) + " " + std::to_string(interrupt_signal());
         }
         return "no error";
       })) {
    EXPECT_EQ(text, "2 2");
  }
}

TEST(RankMessage, ValuesReadBackWithTheirBits) {
  MessageWriter out;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  out.int64(-7).float64(nan).string(std::string("a\0b", 3)).list(std::vector<float>{1.5f, -0.0f});
  out.tensor({}).tensor(at::Tensor());
  const std::string bytes = out.take();
  MessageReader in(bytes);
  EXPECT_EQ(in.int64(), -7);
  EXPECT_TRUE(std::isnan(in.float64()));
  EXPECT_EQ(in.string(), std::string("a\0b", 3));
  const std::vector<float> floats = in.list<float>();
  EXPECT_EQ(floats.size(), 2u);
  EXPECT_TRUE(std::signbit(floats[1]));
  EXPECT_FALSE(in.tensor().defined());
  EXPECT_FALSE(in.tensor().defined());
  EXPECT_TRUE(in.done());
  EXPECT_EQ(message_of<Error>([&] { in.int64(); }), "the message of another rank is truncated");
}

}  // namespace
}  // namespace xrun::agreement_test

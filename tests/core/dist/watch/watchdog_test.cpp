// Watchdogs of several ranks in one process: each has its own record and hooks that note the end.

#include "core/dist/watch/watchdog.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "core/base/process_usage.h"

namespace xrun {
namespace watchdog_test {

struct Rank {
  FlightRecord record;
  std::atomic<bool> reported = false;
  std::atomic<int> status = -1;
  std::unique_ptr<Watchdog> watchdog;
};

// Short limits, so that the tests are quick.
WatchLimits short_limits() {
  WatchLimits out;
  out.silent_ms = 700;
  out.late_ms = 200;
  return out;
}

class Ranks3 : public ::testing::Test {
 protected:
  Ranks3() {
    Socket listener = listen_on(0, /*loopback=*/true);
    const int port = port_of(listener);
    for (int64_t r = 0; r < 3; ++r) {
      RankEnvironment env;
      env.rank = env.local_rank = r;
      env.world_size = env.local_size = 3;
      Rank& rank = ranks_[r];
      WatchdogHooks hooks;
      hooks.end = [&rank](const RankVerdict& verdict, bool reports) {
        rank.reported = reports;
        rank.status = verdict.status;
      };
      Socket socket = r == 0 ? std::move(listener) : connect_to("127.0.0.1", port, 5);
      rank.watchdog =
          std::make_unique<Watchdog>(env, rank.record, std::move(socket), hooks, short_limits());
    }
    // All have said hello once every record has reached rank 0.
    std::this_thread::sleep_for(std::chrono::milliseconds(350));
  }
  ~Ranks3() override {
    for (int64_t r = 2; r >= 0; --r) ranks_[r].watchdog.reset();
  }

  std::string first_line(int64_t r) {
    const auto verdict = ranks_[r].watchdog->await_verdict(3);
    return verdict ? verdict->text.substr(0, verdict->text.find('\n')) : "";
  }
  bool ended(int64_t r) {
    for (int i = 0; i < 100 && ranks_[r].status < 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return ranks_[r].status >= 0;
  }

  Rank ranks_[3];
};

TEST_F(Ranks3, StayQuietWhileAllWork) {
  for (Rank& rank : ranks_) EXPECT_FALSE(rank.watchdog->await_verdict(0.3));
}

TEST_F(Ranks3, AnOrderlyEndOfAllIsNotAFault) {
  for (int64_t r : {0, 1, 2}) ranks_[r].watchdog.reset();
  for (Rank& rank : ranks_) EXPECT_EQ(rank.status, -1);
}

TEST_F(Ranks3, RankThatLeavesOthersWaitingIsNamedByAll) {
  const int64_t call = ranks_[0].record.begin("metrics", 8);
  ranks_[2].record.begin("metrics", 8);
  ranks_[0].record.wait_for(call, "metrics", 8);
  ranks_[1].watchdog.reset();
  EXPECT_EQ(first_line(2),
            "rank 1 of 3: before step 0: it has left the run, and others wait for it");
  EXPECT_EQ(first_line(0), first_line(2));
  EXPECT_TRUE(ended(2));
  EXPECT_FALSE(ranks_[2].reported);
  EXPECT_EQ(ranks_[0].status, -1);  // it waits in a collective, so its main thread may throw
}

TEST_F(Ranks3, RankThatReportsIsEndedAtOnceIfItComputes) {
  const int64_t call = ranks_[2].record.begin("metrics", 8);
  ranks_[2].record.wait_for(call, "metrics", 8);
  ranks_[0].record.begin("metrics", 8);
  ranks_[1].watchdog.reset();
  EXPECT_TRUE(ended(0));
  EXPECT_TRUE(ranks_[0].reported);
  EXPECT_EQ(ranks_[0].status, 1);
}

TEST_F(Ranks3, ErrorOfRank0ReturnsToItsCaller) {
  for (int64_t r : {1, 2}) {
    const int64_t call = ranks_[r].record.begin("metrics", 8);
    ranks_[r].record.wait_for(call, "metrics", 8);
  }
  ranks_[0].watchdog->fail(2, "bad key");
  for (int64_t r : {1, 2}) {
    EXPECT_EQ(first_line(r), "rank 0 of 3: before step 0: bad key");
    EXPECT_TRUE(ended(r));
    EXPECT_EQ(ranks_[r].status, 2);
  }
  EXPECT_EQ(ranks_[0].status, -1);
}

TEST_F(Ranks3, ErrorsOfAllRanksAreFoundByAll) {
  for (Rank& rank : ranks_) rank.record.begin("metrics", 8);
  std::vector<std::thread> threads;
  std::atomic<int> together = 0;
  for (Rank& rank : ranks_) {
    threads.emplace_back([&] {
      if (rank.watchdog->fails_together()) ++together;
      // It goes on before the others know: that is no call which they would miss.
      rank.record.wait_for(rank.record.begin("save", 8), "save", 8);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(together, 3);
}

TEST_F(Ranks3, AnErrorOfOneRankAloneIsFoundWhenAnotherWaits) {
  for (int64_t r : {0, 2}) {
    ranks_[r].record.wait_for(ranks_[r].record.begin("metrics", 8), "metrics", 8);
  }
  const int64_t begin_ms = monotonic_ms();
  EXPECT_FALSE(ranks_[1].watchdog->fails_together());
  EXPECT_LT(monotonic_ms() - begin_ms, 5000);
}

TEST_F(Ranks3, AnEarlierErrorDoesNotCount) {
  for (int64_t r : {0, 2}) {
    ranks_[r].record.note_error();
    ranks_[r].record.wait_for(ranks_[r].record.begin("metrics", 8), "metrics", 8);
    ranks_[r].record.wait_for(ranks_[r].record.begin("metrics", 8), "metrics", 8);
  }
  ranks_[1].record.begin("metrics", 8);
  EXPECT_FALSE(ranks_[1].watchdog->fails_together());
}

TEST_F(Ranks3, NewsOfRank0sOrderlyEndReachesTheOthers) {
  ranks_[0].watchdog.reset();
  EXPECT_FALSE(ranks_[1].watchdog->await_verdict(0.5));
  const int64_t call = ranks_[1].record.begin("metrics", 8);
  ranks_[1].record.wait_for(call, "metrics", 8);
  EXPECT_EQ(first_line(1),
            "rank 0 of 3: before step 0: it has left the run, and others wait for it");
}

}  // namespace watchdog_test
}  // namespace xrun

// Watchdogs of several ranks in one process: each has its own record and hooks that note the end.

#include "core/dist/watch/watchdog.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "core/base/process_usage.h"
#include "core/dist/watch/watch_message.h"

namespace xrun {
namespace watchdog_test {

constexpr uint64_t kRunId = 0x9e3779b97f4a7c15;

int64_t unix_ms() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

struct Rank {
  FlightRecord record;
  std::atomic<bool> reported = false;
  std::atomic<int> status = -1;
  std::unique_ptr<Watchdog> watchdog;
};

// Connects as a rank does, and leaves at once.
void say_hello(int port, const WatchHello& hello) {
  FrameStream stream(connect_to("127.0.0.1", port, 5));
  stream.send(FrameKind::kHello, message_bytes(hello));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
}

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
    port_ = port_of(listener);
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
      WatchConnection connection;
      connection.socket = r == 0 ? std::move(listener) : connect_to("127.0.0.1", port_, 5);
      connection.run_id = kRunId;
      rank.watchdog = std::make_unique<Watchdog>(env, rank.record, std::move(connection), hooks,
                                                 short_limits());
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

  int port_ = 0;
  Rank ranks_[3];
};

TEST_F(Ranks3, StayQuietWhileAllWork) {
  for (Rank& rank : ranks_) EXPECT_FALSE(rank.watchdog->await_verdict(0.3));
}

TEST_F(Ranks3, AnOrderlyEndOfAllIsNotAFault) {
  for (int64_t r : {0, 1, 2}) ranks_[r].watchdog.reset();
  for (Rank& rank : ranks_) EXPECT_EQ(rank.status, -1);
}

TEST_F(Ranks3, ASecondProcessOfAConnectedRankIsIgnored) {
  say_hello(port_, {kRunId, 1, unix_ms()});
  for (Rank& rank : ranks_) EXPECT_FALSE(rank.watchdog->await_verdict(0.5));
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
    ranks_[r].record.note_error(/*stops=*/false);
    ranks_[r].record.wait_for(ranks_[r].record.begin("metrics", 8), "metrics", 8);
    ranks_[r].record.wait_for(ranks_[r].record.begin("metrics", 8), "metrics", 8);
  }
  ranks_[1].record.begin("metrics", 8);
  EXPECT_FALSE(ranks_[1].watchdog->fails_together());
}

// Waits in a collective as a rank does, until another rank's error ends the wait.
std::string error_in(Rank& rank, int64_t call) {
  for (int i = 0; i < 300; ++i) {
    if (const auto error = rank.watchdog->error_before(call)) {
      rank.record.end();
      return error->text.substr(0, error->text.find('\n'));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return "no error";
}

TEST_F(Ranks3, RanksThatWaitForOneWithAnErrorStopWithIt) {
  for (Rank& rank : ranks_) rank.record.begin("weights", 8);  // which all of them make
  std::vector<std::thread> threads;
  for (int64_t r = 0; r < 3; ++r) {
    threads.emplace_back([&, r] {
      Rank& rank = ranks_[r];
      // Rank 0 is two collectives ahead when it waits.
      if (r == 0) rank.record.begin("gradients", 8);
      if (r != 1) {
        const int64_t call = rank.record.begin("metrics", 8);
        rank.record.wait_for(call, "metrics", 8);
        EXPECT_EQ(error_in(rank, call), "rank 1 of 3: before step 0: dpo.lua:9: no luck");
      }
      EXPECT_EQ(rank.watchdog->stop_together("dpo.lua:9: no luck"), Stopped::kApart);
      EXPECT_EQ(rank.record.read().begun, 3);
      EXPECT_FALSE(rank.watchdog->error_before(3));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (Rank& rank : ranks_) EXPECT_FALSE(rank.watchdog->verdict());
}

TEST_F(Ranks3, CollectivesThatAllRanksHaveBegunGoOnAfterAnError) {
  for (Rank& rank : ranks_) rank.record.begin("weights", 8);
  std::thread failed(
      [&] { EXPECT_EQ(ranks_[1].watchdog->stop_together("no luck"), Stopped::kAlone); });
  EXPECT_EQ(error_in(ranks_[0], 1), "rank 1 of 3: before step 0: no luck");
  EXPECT_FALSE(ranks_[0].watchdog->error_before(0));
  ranks_[2].watchdog.reset();  // it leaves, and will not stop
  failed.join();
}

TEST_F(Ranks3, ErrorsOfAllAfterTheSameCollectivesLeaveThemTogether) {
  std::vector<std::thread> threads;
  for (Rank& rank : ranks_) {
    threads.emplace_back(
        [&] { EXPECT_EQ(rank.watchdog->stop_together("no luck"), Stopped::kTogether); });
  }
  for (std::thread& thread : threads) thread.join();
}

// The error is the user's; the lost rank is why its state was not saved.
TEST_F(Ranks3, ARankLostAfterAnErrorDoesNotHideIt) {
  std::thread failed(
      [&] { EXPECT_EQ(ranks_[1].watchdog->stop_together("no luck"), Stopped::kAlone); });
  EXPECT_EQ(error_in(ranks_[0], 0), "rank 1 of 3: before step 0: no luck");
  ranks_[0].record.wait_for(ranks_[0].record.begin("connect", 8), "connect", 8);
  ranks_[2].watchdog.reset();
  const auto verdict = ranks_[0].watchdog->await_verdict(3);
  failed.join();
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->rank, 1);
  EXPECT_TRUE(verdict->text.starts_with(
      "rank 1 of 3: before step 0: no luck\n  the state was not saved: rank 2 of 3: "))
      << verdict->text;
}

TEST_F(Ranks3, NewsOfRank0sOrderlyEndReachesTheOthers) {
  ranks_[0].watchdog.reset();
  EXPECT_FALSE(ranks_[1].watchdog->await_verdict(0.5));
  const int64_t call = ranks_[1].record.begin("metrics", 8);
  ranks_[1].record.wait_for(call, "metrics", 8);
  EXPECT_EQ(first_line(1),
            "rank 0 of 3: before step 0: it has left the run, and others wait for it");
}

// Rank 0 of two; the test speaks for rank 1.
struct FirstOf2 {
  FirstOf2() {
    RankEnvironment env;
    env.world_size = env.local_size = 2;
    WatchConnection connection;
    connection.socket = listen_on(0, /*loopback=*/true);
    connection.run_id = kRunId;
    port = port_of(connection.socket);
    watchdog = std::make_unique<Watchdog>(env, record, std::move(connection), WatchdogHooks(),
                                          WatchLimits());
  }

  FlightRecord record;
  int port = 0;
  std::unique_ptr<Watchdog> watchdog;
};

TEST(Watchdog, IgnoresAProcessOfAnotherRun) {
  FirstOf2 first;
  say_hello(first.port, {kRunId + 1, 1, unix_ms()});
  EXPECT_FALSE(first.watchdog->await_verdict(0.5));
  say_hello(first.port, {kRunId, 1, unix_ms()});
  EXPECT_TRUE(first.watchdog->await_verdict(3));  // this run's rank 1 is gone
}

TEST(Watchdog, RefusesAClockThatIsFarOff) {
  for (const int64_t off_ms : {-100500, 100500}) {
    FirstOf2 first;
    say_hello(first.port, {kRunId, 1, unix_ms() + off_ms});
    const auto verdict = first.watchdog->await_verdict(3);
    ASSERT_TRUE(verdict);
    EXPECT_EQ(verdict->text.substr(0, verdict->text.find('\n')),
              "rank 1 of 2: before step 0: its clock is 100 s away from that of rank 0; set the "
              "clocks of the machines (NTP)");
  }
}

TEST(Watchdog, AllowsAClockThatIsSlightlyOff) {
  FirstOf2 first;
  FrameStream stream(connect_to("127.0.0.1", first.port, 5));
  stream.send(FrameKind::kHello, message_bytes(WatchHello{kRunId, 1, unix_ms() - 30000}));
  EXPECT_FALSE(first.watchdog->await_verdict(0.5));
}

}  // namespace watchdog_test
}  // namespace xrun

// The judge names a rank that died, hangs or disagrees, and lets working ranks go on.

#include "core/dist/watch/judge.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "tests/error_of.h"
#include "tests/scoped_variable.h"

namespace xrun {
namespace judge_test {

constexpr int64_t kNow = 1000000;

// A rank that computes after collective `begun` - 1, with a message and a sign of work just now.
RankView computing(int64_t begun) {
  RankView out;
  out.status.step = 17;
  out.status.begun = begun;
  out.status.call = begun - 1;
  out.status.since_ms = kNow;
  out.heard_ms = out.active_ms = out.alive_ms = kNow;
  return out;
}

RankView waiting(int64_t call, int64_t for_ms, const char* label = "gradient bucket 3") {
  RankView out = computing(call + 1);
  out.status.state = RankState::kWaiting;
  out.status.call = call;
  out.status.bytes = 4200000;
  out.status.since_ms = kNow - for_ms;
  std::snprintf(out.status.label, sizeof out.status.label, "%s", label);
  std::snprintf(out.status.line, sizeof out.status.line, "recipes/dpo.lua:31");
  return out;
}

std::string first_line(const std::optional<RankVerdict>& verdict) {
  return verdict ? verdict->text.substr(0, verdict->text.find('\n')) : "";
}

TEST(Judge, LetsRanksThatWorkGoOn) {
  EXPECT_FALSE(judge({computing(3), waiting(3, 100), waiting(3, 60000)}, {}, kNow));
}

TEST(Judge, FindsADeadRankAndTellsWhatEachDid) {
  std::vector<RankView> ranks = {waiting(118, 400), computing(118), waiting(118, 500)};
  ranks[1].closed = true;
  const auto verdict = judge(ranks, {}, kNow);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->rank, 1);
  EXPECT_FALSE(verdict->reported);
  EXPECT_EQ(verdict->text,
            "rank 1 of 3: step 17: its process ended without a message: killed, crashed or out of "
            "memory\n"
            "  rank 1: step 17, computing for 0.0 s after \"\" (collective 117, 0 bytes)\n"
            "  rank 0: step 17, waiting in \"gradient bucket 3\" (collective 118, 4.2 MB) for 0.4 "
            "s, recipes/dpo.lua:31\n"
            "  rank 2: step 17, waiting in \"gradient bucket 3\" (collective 118, 4.2 MB) for 0.5 "
            "s, recipes/dpo.lua:31");
}

TEST(Judge, AnErrorThatQuotesAnotherRankIsThatRanks) {
  std::vector<RankView> ranks = {computing(3), computing(3), computing(3)};
  ranks[1].status.step = 18;
  ranks[2].failure = "dpo.lua:31: AdamW:step: rank 1 of 3: my objective is wrong\nrank 0 of 3: x";
  ranks[2].failure_status = 2;
  const auto verdict = judge(ranks, {}, kNow);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(first_line(verdict),
            "rank 1 of 3: step 18: dpo.lua:31: AdamW:step: my objective is wrong");
  EXPECT_EQ(verdict->rank, 1);
  EXPECT_EQ(verdict->status, 2);
  EXPECT_TRUE(verdict->reported);
  ranks[2].failure = "the reward of crank 1 of 3: too low";
  EXPECT_EQ(first_line(judge(ranks, {}, kNow)),
            "rank 2 of 3: step 17: the reward of crank 1 of 3: too low");
}

TEST(Judge, AnOrderlyEndIsNotAFault) {
  std::vector<RankView> ranks = {computing(3), computing(3)};
  ranks[1].closed = ranks[1].left = true;
  EXPECT_FALSE(judge(ranks, {}, kNow));
}

TEST(Judge, FindsARankThatLeftTheOthersWaiting) {
  std::vector<RankView> ranks = {waiting(3, 2500), computing(3)};
  ranks[1].left = true;
  EXPECT_EQ(first_line(judge(ranks, {}, kNow)),
            "rank 1 of 2: step 17: it has left the run, and others wait for it");
}

TEST(Judge, FindsASilentRank) {
  std::vector<RankView> ranks = {computing(3), computing(3)};
  ranks[1].heard_ms = kNow - 7900;
  EXPECT_FALSE(judge(ranks, {}, kNow));
  ranks[1].heard_ms = kNow - 8000;
  EXPECT_EQ(first_line(judge(ranks, {}, kNow)),
            "rank 1 of 2: step 17: no answer for 8 s: its process is stopped, or its machine is "
            "down or out of reach");
}

// Busy in Lua code without a call for 12 s, while rank 0 waits.
TEST(Judge, FindsALoopInLuaCode) {
  std::vector<RankView> ranks = {waiting(3, 11000), computing(3)};
  ranks[1].status.in_lua = 1;
  ranks[1].active_ms = kNow - 12000;
  ranks[1].status.cpu_ms = 11000;
  EXPECT_EQ(first_line(judge(ranks, {}, kNow)),
            "rank 1 of 2: step 17: no progress for 12 s in the recipe's Lua code, and others wait "
            "for it in \"gradient bucket 3\" (collective 3, 4.2 MB); XRUN_DIST_HANG_S=N allows N "
            "seconds");
}

// No activity and no processor time for 12 s: a deadlock.
TEST(Judge, FindsARankThatIsIdle) {
  std::vector<RankView> ranks = {waiting(3, 11000), computing(3)};
  ranks[1].active_ms = ranks[1].alive_ms = kNow - 11900;
  EXPECT_FALSE(judge(ranks, {}, kNow));
  ranks[1].active_ms = ranks[1].alive_ms = kNow - 12000;
  const auto verdict = judge(ranks, {}, kNow);
  EXPECT_EQ(first_line(verdict),
            "rank 1 of 2: step 17: no progress for 12 s and no processor time in the engine, and "
            "others wait for it in \"gradient bucket 3\" (collective 3, 4.2 MB); "
            "XRUN_DIST_HANG_S=N allows N seconds");
  ASSERT_TRUE(verdict);
  EXPECT_NE(verdict->text.find("recipes/dpo.lua:31"), std::string::npos);
}

TEST(Judge, AnIdleRankThatNobodyWaitsForGoesOn) {
  std::vector<RankView> ranks = {computing(3), computing(3)};
  ranks[1].active_ms = ranks[1].alive_ms = kNow - 100000;
  EXPECT_FALSE(judge(ranks, {}, kNow));
}

TEST(Judge, LetsLuaCodeWaitForAProgramThatItCalled) {
  std::vector<RankView> ranks = {waiting(3, 60000), computing(3)};
  ranks[1].status.in_lua = 1;
  ranks[1].active_ms = kNow - 61000;
  ranks[1].status.cpu_ms = 100;
  ranks[1].status.outside = 1;
  EXPECT_FALSE(judge(ranks, {}, kNow));
  EXPECT_EQ(late_notice(ranks, {}, kNow),
            "rank 1 of 2 shows no progress in the recipe's Lua code, which waits for a file or "
            "program, and others wait for it in \"gradient bucket 3\" (collective 3, 4.2 MB): step "
            "17, in Lua code for 0.0 s after \"\" (collective 2, 0 bytes); the run ends if that "
            "lasts for 600 s (XRUN_DIST_HANG_S)");
  ranks[1].active_ms = kNow - 600000;
  EXPECT_TRUE(judge(ranks, {}, kNow));
}

TEST(Judge, LetsTheEngineComputeForLong) {
  std::vector<RankView> ranks = {waiting(3, 300000), computing(3)};
  ranks[1].active_ms = kNow - 300000;
  ranks[1].status.cpu_ms = 300000;
  EXPECT_FALSE(judge(ranks, {}, kNow));
}

TEST(Judge, ALoopThatNobodyWaitsForGoesOn) {
  std::vector<RankView> ranks = {computing(3), computing(3)};
  ranks[1].status.in_lua = 1;
  ranks[1].active_ms = kNow - 100000;
  ranks[1].status.cpu_ms = 100000;
  EXPECT_FALSE(judge(ranks, {}, kNow));
}

TEST(Judge, FindsRanksInDifferentCollectives) {
  EXPECT_EQ(first_line(judge({waiting(3, 2500, "metrics"), waiting(3, 2500, "answers")}, {}, kNow)),
            "rank 1 of 2: step 17: it waits in \"answers\" where rank 0 waits in \"metrics\": the "
            "ranks do not make the same calls");
}

// Calls may be under way together, so one rank may wait in a later one for long.
TEST(Judge, FindsRanksThatWaitForEachOtherInDifferentCalls) {
  std::vector<RankView> ranks = {waiting(117, 14000, "meeting"), waiting(116, 14000, "metrics")};
  for (RankView& rank : ranks) rank.status.begun = 118, rank.status.bytes = 80;
  EXPECT_FALSE(judge(ranks, {}, kNow - 3000));
  EXPECT_EQ(first_line(judge(ranks, {}, kNow)),
            "rank 1 of 2: step 17: it waits in \"metrics\" where rank 0 waits in \"meeting\": the "
            "ranks do not make the same calls");
  ranks[0] = computing(117);
  EXPECT_FALSE(judge(ranks, {}, kNow));
}

TEST(Judge, AReportedErrorWinsOverItsConsequences) {
  std::vector<RankView> ranks = {computing(3), computing(3)};
  ranks[0].closed = true;
  ranks[1].failure = "dpo.lua:7: attempt to index a nil value";
  ranks[1].failure_status = 2;
  const auto verdict = judge(ranks, {}, kNow);
  EXPECT_EQ(first_line(verdict), "rank 1 of 2: step 17: dpo.lua:7: attempt to index a nil value");
  EXPECT_EQ(verdict->status, 2);
  EXPECT_TRUE(verdict->reported);
}

TEST(Judge, ShowsSixteenRanksAtMost) {
  std::vector<RankView> ranks(64, waiting(3, 100));
  ranks[40].closed = true;
  const auto verdict = judge(ranks, {}, kNow);
  ASSERT_TRUE(verdict);
  EXPECT_TRUE(verdict->text.ends_with("\n  and 48 more"));
}

TEST(RankView, AnyCallOrSignOfWorkIsActivity) {
  RankView rank = computing(3);
  RankStatus status = rank.status;
  rank.update(status, kNow + 500);
  EXPECT_EQ(rank.heard_ms, kNow + 500);
  EXPECT_EQ(rank.active_ms, kNow);
  status.activity = 9;
  rank.update(status, kNow + 750);
  EXPECT_EQ(rank.active_ms, kNow + 750);
}

TEST(RankView, ProcessorTimeAndAWaitOutsideAreSignsOfLife) {
  RankView rank = computing(3);
  RankStatus status = rank.status;
  status.work_ms = 49;
  rank.update(status, kNow + 1000);
  EXPECT_EQ(rank.alive_ms, kNow);
  status.work_ms = 50;
  rank.update(status, kNow + 2000);
  EXPECT_EQ(rank.alive_ms, kNow + 2000);
  EXPECT_EQ(rank.active_ms, kNow);
  status.work_ms = 60;  // counted from the last sign
  rank.update(status, kNow + 3000);
  EXPECT_EQ(rank.alive_ms, kNow + 2000);
  status.outside = 1;
  rank.update(status, kNow + 4000);
  EXPECT_EQ(rank.alive_ms, kNow + 4000);
}

TEST(WatchLimits, TakeTheSecondsOfTheEnvironment) {
  const ScopedVariable variable("XRUN_DIST_HANG_S", "90");
  EXPECT_EQ(watch_limits().hang_ms, 90000);
  EXPECT_EQ(watch_limits().stuck_ms, 90000);
}

TEST(WatchLimits, RejectWhatIsNotANumberOfSeconds) {
  for (const char* const text : {"soon", "0", "nan", "inf"}) {
    const ScopedVariable variable("XRUN_DIST_HANG_S", text);
    EXPECT_EQ(
        error_of([] { watch_limits(); }),
        fmt::format("XRUN_DIST_HANG_S: got \"{}\", wanted a positive number of seconds, at most "
                    "1000000",
                    text));
  }
}

}  // namespace judge_test
}  // namespace xrun

// Processes that must not meet: of other jobs, of other world sizes, with other programs.

#include "core/dist/rendezvous.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <vector>

#include "core/base/error.h"
#include "core/dist/watch/socket.h"
#include "tests/core/dist/rank_env.h"

namespace xrun {
namespace rendezvous_test {

// Returns "usage: " or "error: " and the message that `work` threw, or "".
std::string failure_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const UsageError& error) {
    return std::string("usage: ") + error.what();
  } catch (const std::exception& error) {
    return std::string("error: ") + error.what();
  }
  return "";
}

// The processes meet on threads; returns the failure of each. `program`: of process i.
std::vector<std::string> failures(
    c10d::Store& store, const std::vector<RankEnvironment>& envs,
    const std::function<std::string(size_t i)>& program = [](size_t) { return "engine ab\n"; }) {
  std::vector<std::string> out(envs.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < envs.size(); ++i) {
    threads.emplace_back(
        [&, i] { out[i] = failure_of([&] { meet(store, envs[i], program(i)); }); });
  }
  for (std::thread& thread : threads) thread.join();
  return out;
}

TEST(Rendezvous, OtherBuildsAreBadUsage) {
  c10d::HashStore store;
  for (const std::string& failure : failures(store, {env_of(0, 2), env_of(1, 2)}, [](size_t i) {
         return fmt::format("engine a{}\n", i);
       })) {
    EXPECT_EQ(failure.substr(0, 63),
              "usage: ranks 0 and 1 run different builds of xrun (engine a0 an");
  }
}

TEST(Rendezvous, AProcessOfASecondJobIsRefused) {
  c10d::HashStore store;
  for (const std::string& failure : failures(store, {env_of(0, 2), env_of(1, 2)})) {
    EXPECT_EQ(failure, "");
  }
  EXPECT_EQ(failures(store, {env_of(1, 2)})[0],
            "usage: another process has joined as rank 1 of 2 at 127.0.0.1:29500; give each job a "
            "MASTER_PORT of its own, and each of its processes its own RANK");
  EXPECT_EQ(failures(store, {env_of(2, 3)})[0].substr(0, 7), "usage: ");
}

TEST(Rendezvous, EveryRankNamesWorldSizesThatDiffer) {
  for (const int64_t odd : {0, 1}) {
    c10d::HashStore store;
    std::vector<RankEnvironment> envs = {env_of(0, 2), env_of(1, 2)};
    envs[odd] = env_of(odd, 3);
    for (const std::string& failure : failures(store, envs)) {
      EXPECT_EQ(
          failure.find("usage: the ranks that meet at 127.0.0.1:29500 differ in their number"), 0u)
          << failure;
      for (const auto& env : envs) {
        const std::string wanted =
            fmt::format("WORLD_SIZE={} on rank {}", env.world_size, env.rank);
        EXPECT_NE(failure.find(wanted), std::string::npos) << failure;
      }
    }
  }
}

// A server that accepts connections and says nothing, as one of another protocol may.
TEST(Rendezvous, AnotherProgramAtThePortIsReported) {
  const Socket mute = listen_on(0, /*loopback=*/true);
  const int port = port_of(mute);
  ::setenv("XRUN_DIST_JOIN_S", "0.5", /*overwrite=*/1);
  const std::string failure = failure_of([&] { open_store(env_of(1, 2, port)); });
  ::unsetenv("XRUN_DIST_JOIN_S");
  const std::string begin = fmt::format(
      "error: rank 1 of 2: what listens at 127.0.0.1:{} does not answer as rank 0 of a run (no "
      "answer, tried for",
      port);
  EXPECT_EQ(failure.substr(0, begin.size()), begin);
}

}  // namespace rendezvous_test
}  // namespace xrun

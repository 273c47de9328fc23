// kill -9 at random times of a run that checkpoints often; the oracle is the undisturbed run.

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <random>
#include <thread>

#include "tests/core/run/child_process.h"
#include "tests/core/run/toy_run.h"
#include "tests/scratch_folder.h"

namespace xrun::kill_test {
namespace {

ToyLoop loop_of_child(bool resume) {
  ToyLoop loop;
  loop.size = 300000;  // so that writing takes about as long as killing
  loop.phases = {12, 12};
  loop.settings.save_every = 2;
  loop.resume = resume;
  return loop;
}

TEST(Child, DISABLED_Train) {
  std::printf("ready\n");
  std::fflush(stdout);
  toy_run(::getenv("XRUN_CHILD_FOLDER"), loop_of_child(true));
}

std::string last_weights(const std::filesystem::path& dir) {
  return text_of(dir / "checkpoints/step_0000024/weights.safetensors") +
         text_of(dir / "checkpoints/step_0000024/run.json") +
         text_of(dir / "checkpoints/step_0000024/manifest.json");
}

// Kills a run `kills` times, each within `most_ms` of its (re)start, then lets it end.
void kill_and_compare(int kills, int most_ms, uint32_t seed) {
  const ScratchFolder folder;
  toy_run(folder / "whole", loop_of_child(false));
  std::mt19937 random(seed);
  const std::string run = (folder / "killed").string();
  int killed = 0;
  for (int starts = 0; killed < kills; ++starts) {
    ASSERT_LT(starts, 10 * kills) << "most runs end before their kill";
    ChildProcess child("Train", run);
    ASSERT_TRUE(child.wait_for("ready"));
    const auto wait_us = random() % static_cast<uint32_t>(most_ms * 1000);
    std::this_thread::sleep_for(std::chrono::microseconds(wait_us));
    child.kill(SIGKILL);
    const int status = child.wait();
    if (status == 0) std::filesystem::remove_all(run);  // it had ended; begin again
    killed += status == 128 + SIGKILL;
  }
  ChildProcess last("Train", run);
  ASSERT_EQ(last.wait(), 0) << last.said();
  EXPECT_EQ(text_of(run + "/metrics.jsonl"), text_of(folder / "whole/metrics.jsonl"));
  EXPECT_EQ(last_weights(run), last_weights(folder / "whole"));
  EXPECT_FALSE(last_weights(run).empty());
}

TEST(Kill, ARunKilledOnceMatchesTheUninterruptedOne) { kill_and_compare(1, 40, 1); }

TEST(SlowKill, ARunKilledFiftyTimesMatchesTheUninterruptedOne) {
  for (uint32_t seed = 2; seed < 7; ++seed) kill_and_compare(10, 60, seed);
}

}  // namespace
}  // namespace xrun::kill_test

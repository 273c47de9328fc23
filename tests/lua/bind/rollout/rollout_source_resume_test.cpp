// xrun.rollouts through failures and resumes: the same bits, no group lost, nothing sampled twice.

#include <algorithm>
#include <cmath>

#include "core/base/strings.h"
#include "tests/lua/bind/rollout/rollout_source_fixture.h"

namespace xrun::rollout_source_resume_test {

TEST_F(RolloutSources, SlowResumeToTheSameBitsWithCarriedGroupsAndSampleNothingTwice) {
  const std::string counted =
      std::string("local f = io.open('calls', 'a') f:write('x') f:close() ") + kReward;
  const std::string text = recipe("round = 5", kUpdate, counted);
  ASSERT_EQ(run(text, "whole"), "");
  const size_t calls = read_file("calls").size();
  const Values waiting = values("whole", "rollout/waiting_groups");
  EXPECT_GT(*std::max_element(waiting.begin(), waiting.end() - 1), 0);
  std::filesystem::remove("calls");
  for (const int64_t stop : {1, 2, 3, 4}) {
    const std::string dir = "stopped_" + std::to_string(stop);
    ASSERT_EQ(run(text, dir, {.steps = stop}), "");
    const std::string partial = dir + "/rollouts/step_0000004.jsonl.zst.tmp7";
    write_file_atomic(partial, "half of a file that a kill left");
    ASSERT_EQ(run(text, dir, {.resume = true}), "");
    EXPECT_FALSE(path_exists(partial));
    EXPECT_EQ(metrics(dir), metrics("whole")) << stop;
    EXPECT_EQ(read_file(dir + "/hf/model.safetensors"), read_file("whole/hf/model.safetensors"));
    expect_same_files("whole", dir);
    EXPECT_EQ(read_file("calls").size(), calls) << "an answer was scored twice";
    std::filesystem::remove("calls");
  }
}

TEST_F(RolloutSources, SlowAheadOfTrainingAreClippedAndResumeToTheSameBits) {
  const std::string text = recipe("depth = 2");
  expect_same_when_resumed(text, {1, 2, 4});
  for (const int stop : {1, 2, 4}) expect_same_files("whole", fmt::format("stopped_{}", stop));
  EXPECT_EQ(values("whole", "train/path_on_policy"), (Values{1, 0, 0, 0, 0}));
  EXPECT_EQ(values("whole", "train/path_clipped"), (Values{0, 1, 1, 1, 1}));
  EXPECT_EQ(values("whole", "rollout/waiting_groups"), (Values{4, 4, 4, 4, 4}));
  const Values ratio = values("whole", "train/ratio");
  EXPECT_EQ(ratio[0], 1);
  EXPECT_NE(ratio[2], 1);
  EXPECT_TRUE(has(decompressed("whole/rollouts/step_0000004.jsonl.zst"), "\"version\":2,"));
  ASSERT_EQ(run(text, "again"), "");
  EXPECT_TRUE(has(output_, "; sampled 2 steps ahead, so their weights are older"));
  EXPECT_TRUE(has(output_,
                  "step 1: loss path: clipped (100 % of the trained tokens, up to 1 update"
                  " old)\n"));
  EXPECT_EQ(output_.find("step 2: loss path"), std::string::npos) << output_;
  ASSERT_EQ(run(recipe("depth = 2, staleness = 1"), "limit"), "");
  EXPECT_EQ(values("limit", "rollout/stale_dropped"), (Values{0, 0, 2, 0, 2}));
}

TEST_F(RolloutSources, SlowOfSeveralUpdatesResumeToTheSameBits) {
  const std::string text = recipe("", R"(
  for mini in rollouts:minibatches { epochs = 2, groups = 1 } do run:log(adamw:step(mini, grpo)) end)");
  expect_same_when_resumed(text, {1, 3});
  for (const double share : values("whole", "train/path_on_policy")) {
    EXPECT_GT(share, 0.2);
    EXPECT_LT(share, 0.3) << "one of four updates, of about as many tokens each";
  }
  EXPECT_EQ(values("whole", "rollout/logprob_diff_max"), (Values{0, 0, 0, 0, 0}));
}

TEST_F(RolloutSources, FilesOfRepeatedStepsAreRemovedByAResume) {
  const std::string text = recipe();
  ASSERT_EQ(run(text, "r", {.steps = 2}), "");
  const std::string file = "r/rollouts/step_0000004.jsonl.zst";
  std::filesystem::copy_file("r/rollouts/step_0000001.jsonl.zst", file);  // of a killed process
  ASSERT_EQ(run(text, "r", {.resume = true, .steps = 3}), "");
  EXPECT_FALSE(path_exists(file)) << "the last file would be taken for the last step";
  EXPECT_TRUE(path_exists("r/rollouts/step_0000001.jsonl.zst"));
  EXPECT_TRUE(path_exists("r/rollouts/step_0000002.jsonl.zst"));
}

TEST_F(RolloutSources, AFailedRewardLosesNoGroup) {
  const std::string failing =
      std::string("if io.open('fail') and adamw.update_count >= 2 then error('broken') end ") +
      kReward;
  const std::string text = recipe("round = 5", kUpdate, failing);
  ASSERT_EQ(run(text, "whole"), "");
  write_file_atomic("fail", "");
  has(run(text, "r"), "broken");
  std::filesystem::remove("fail");
  ASSERT_EQ(run(text, "r", {.resume = true}), "");
  EXPECT_EQ(metrics("r"), metrics("whole"));
  EXPECT_EQ(read_file("r/hf/model.safetensors"), read_file("whole/hf/model.safetensors"));
}

TEST_F(RolloutSources, AFailedUpdateLosesNoGroup) {
  const std::string text =
      recipe("depth = 1",
             std::string("if io.open('fail') and step == 2 then error('broken') end ") + kUpdate);
  ASSERT_EQ(run(text, "whole"), "");
  write_file_atomic("fail", "");
  has(run(text, "r"), "broken");  // its batch had been taken from the queue
  std::filesystem::remove("fail");
  ASSERT_EQ(run(text, "r", {.resume = true}), "");
  EXPECT_EQ(metrics("r"), metrics("whole"));
  EXPECT_EQ(read_file("r/hf/model.safetensors"), read_file("whole/hf/model.safetensors"));
}

TEST_F(RolloutSources, SlowPassAtKIsDecidedOnceForTheWholeRun) {
  // Only every second body has the rewards 0 and 1.
  const auto text = [](int penalty) {
    return recipe(
        "", kUpdate,
        fmt::format("return s.ids[1] % 2 - (s.version % 2 == {} and 0.25 or 0)", penalty));
  };
  expect_same_when_resumed(text(1), {1, 2});
  EXPECT_EQ(values("whole", "rollout/pass_at_1").size(), 5u);
  EXPECT_EQ(read_json("whole/run.json").at("pass").at("limit").as_double(), 0);
  ASSERT_EQ(run(text(0), "penalty"), "");
  EXPECT_EQ(values("penalty", "rollout/pass_at_1").size(), 0u);
  EXPECT_TRUE(read_json("penalty/run.json").at("pass").at("limit").is_null());
}

TEST_F(RolloutSources, SlowScoredAgainInTheBodyResumeToTheSameBits) {
  const std::string text = recipe("depth = 1", std::string(R"(
  rollouts:score(function(s) return s.reward + 1 end)
  if io.open('fail') and step == 2 then error('broken') end )") +
                                                   kUpdate);
  ASSERT_EQ(run(text, "whole"), "");
  write_file_atomic("fail", "");
  has(run(text, "r"), "broken");
  std::filesystem::remove("fail");
  ASSERT_EQ(run(text, "r", {.resume = true}), "");
  EXPECT_EQ(metrics("r"), metrics("whole"));
  expect_same_files("whole", "r");
}

}  // namespace xrun::rollout_source_resume_test

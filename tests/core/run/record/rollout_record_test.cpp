// The recorded answers of a step are read back, and damaged files are named.

#include "core/run/record/rollout_record.h"

#include <gtest/gtest.h>

#include "core/base/compression.h"
#include "core/run/record/run_files.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace xrun::rollout_record_test {
namespace {

constexpr const char* kLines =
    R"({"row":7,"group":0,"sample":0,"finish":"stop","prompt":"2+2?","text":"4",)"
    R"("logprobs":[-1,-2],"reward":1,"parts":{"right":1},"passed":true,"advantage":0.5,"trained":true})"
    "\n"
    R"({"row":7,"group":0,"sample":1,"finish":"length","prompt":"2+2?","text":"five",)"
    R"("logprobs":[-1,-2,-3],"reward":0,"parts":{"right":0},"passed":false,"advantage":-0.5,)"
    R"("trained":true})"
    "\n"
    R"({"row":9,"group":1,"sample":0,"finish":"stop","text":"x","logprobs":[],"reward":null,)"
    R"("parts":{},"trained":false})"
    "\n";

void put_rollouts(const std::filesystem::path& dir, int64_t step, const std::string& lines) {
  std::filesystem::create_directories(dir / "rollouts");
  put_text(dir / fmt::format("rollouts/step_{:07}.jsonl.zst", step), zstd_frame(lines));
}

TEST(RolloutRecord, HasTheAnswersOfAStep) {
  const ScratchFolder folder;
  put_rollouts(folder.path(), 12, kLines);
  put_rollouts(folder.path(), 3, kLines);
  put_text(folder / "rollouts/step_x.jsonl.zst", "");
  EXPECT_EQ(rollout_steps(folder.path()), (std::vector<int64_t>{3, 12}));
  const RecordedRollouts step = read_rollouts(folder.path(), 12);
  EXPECT_EQ(step.step, 12);
  ASSERT_EQ(step.answers.size(), 3u);
  const RecordedRollout& first = step.answers[0];
  EXPECT_EQ(first.row, 7);
  EXPECT_EQ(first.length, 2);
  EXPECT_EQ(first.prompt, "2+2?");
  EXPECT_EQ(first.text, "4");
  EXPECT_EQ(first.passed, true);
  EXPECT_EQ(first.value("reward"), 1);
  EXPECT_EQ(first.value("advantage"), 0.5);
  EXPECT_EQ(first.value("length"), 2);
  EXPECT_EQ(first.value("right"), 1);
  EXPECT_EQ(first.value("other"), std::nullopt);
  EXPECT_EQ(step.answers[2].reward, std::nullopt);
  EXPECT_EQ(step.answers[2].passed, std::nullopt);
  EXPECT_FALSE(step.answers[2].trained);
  EXPECT_EQ(groups_of(step.answers), (std::vector<std::vector<size_t>>{{0, 1}, {2}}));
}

TEST(RolloutRecord, OrdersByAValueWithMissingOnesLast) {
  const ScratchFolder folder;
  put_rollouts(folder.path(), 0, kLines);
  const auto answers = read_rollouts(folder.path(), 0).answers;
  EXPECT_EQ(ordered_by(answers, "reward", true), (std::vector<size_t>{0, 1, 2}));
  EXPECT_EQ(ordered_by(answers, "reward", false), (std::vector<size_t>{1, 0, 2}));
  EXPECT_EQ(ordered_by(answers, "length", false), (std::vector<size_t>{2, 0, 1}));
}

TEST(RolloutRecord, DamagedFilesAreNamed) {
  const ScratchFolder folder;
  put_rollouts(folder.path(), 1, std::string(kLines) + "[1]\n");
  EXPECT_EQ(error_of([&] { read_rollouts(folder.path(), 1); }),
            "rollouts/step_0000001.jsonl.zst:4: holds array, wanted an object");
  put_text(folder / "run.json", "{}");
  put_rollouts(folder.path(), 5, kLines);
  put_rollouts(folder.path(), 9, kLines);
  const RunFiles run = read_run_files(folder.path());
  ASSERT_EQ(run.rollouts.size(), 1u);
  EXPECT_EQ(run.rollouts[0].step, 9);
  EXPECT_TRUE(run.notices.back().starts_with("rollouts of step 1 cannot be read: "));
}

}  // namespace
}  // namespace xrun::rollout_record_test

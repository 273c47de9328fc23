// A body that is taken back and run again leaves the files of a run that had it once.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "core/base/error.h"
#include "core/run/run.h"
#include "core/run/state_copy.h"
#include "tests/core/run/toy_run.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace xrun::take_back_test {
namespace {

class TakeBack : public testing::Test {
 protected:
  TakeBack()
      : saved_{{"weights", weights_}},
        run_(RunDir::open(toy_identity(), {folder_ / "run"}), {}, saved_) {
    run_.log(Metric{{"valid/loss", 0.5}});  // before the loop: of step 0's line
    run_.begin_phase({.steps = 2, .data = Json::object()}, Json());
  }

  using Metric = std::vector<std::pair<std::string, double>>;

  void body(double loss) {
    ASSERT_TRUE(run_.begin_body(Json()).has_value());
    copy_.keep(saved_);
    weights_->update(run_.step());
    run_.mark_updated();
    run_.log(Metric{{"train/loss", loss}});
    run_.end_body(Json());
  }

  std::string lines() const { return text_of(folder_ / "run/metrics.jsonl"); }

  const ScratchFolder folder_;
  std::shared_ptr<ToyWeights> weights_ = std::make_shared<ToyWeights>();
  SavedObjects saved_;
  xrun::Run run_;  // testing::Test has its own Run
  StateCopy copy_;
};

TEST_F(TakeBack, TheLineIsReplacedWithWhatWasLoggedBeforeTheBody) {
  body(1);
  run_.take_back();
  EXPECT_EQ(run_.step(), 0);
  body(2);
  EXPECT_EQ(lines(), "{\"step\":0,\"train/loss\":2.0,\"valid/loss\":0.5}\n");
  body(3);
  EXPECT_EQ(
      lines(),
      "{\"step\":0,\"train/loss\":2.0,\"valid/loss\":0.5}\n{\"step\":1,\"train/loss\":3.0}\n");
}

TEST_F(TakeBack, NullsOfTheRemainingBodiesStillCount) {
  const double nan = std::nan("");
  body(nan);
  body(nan);
  run_.take_back();
  EXPECT_EQ(run_.summary().nonfinite, (std::map<std::string, int64_t>{{"train/loss", 1}}));
  body(3);
  EXPECT_EQ(run_.summary().nonfinite, (std::map<std::string, int64_t>{{"train/loss", 1}}));
}

// A reader of TensorBoard's file forgets the step at the mark.
TEST_F(TakeBack, TensorBoardsFileContinuesAfterAMark) {
  body(1);
  body(2);
  run_.take_back();
  body(3);
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "run/tb")) {
    files.push_back(entry.path());
  }
  ASSERT_EQ(files.size(), 1u);
  const std::string bytes = text_of(files[0]);
  std::string kinds;
  for (size_t at = 0; at < bytes.size();) {
    uint64_t length = 0;
    std::memcpy(&length, bytes.data() + at, sizeof length);
    const std::string_view event = std::string_view(bytes).substr(at + 12, length);
    const bool mark = event.ends_with(std::string_view("\x3a\x02\x08\x01"));
    kinds += mark ? 'm' : event.find("train/loss") != event.npos ? 'l' : 'v';
    at += 16 + length;
  }
  EXPECT_EQ(kinds, "vllml");
}

TEST_F(TakeBack, TheStepsCheckpointIsWrittenAgain) {
  body(1);
  body(2);  // the last one of its phase is saved
  const double first = weights_->first();
  run_.take_back();
  copy_.restore(saved_);
  weights_->update(3);
  const double other = weights_->first();
  body(4);
  EXPECT_NE(weights_->first(), first);
  CheckpointStore store(folder_ / "run/checkpoints", 2);
  const auto checkpoint = store.load_latest();
  ASSERT_TRUE(checkpoint.has_value());
  EXPECT_EQ(checkpoint->step(), 2);
  const double now = weights_->first();
  weights_->update(5);
  checkpoint->restore(saved_);
  EXPECT_EQ(weights_->first(), now);
  EXPECT_NE(now, other);
}

TEST_F(TakeBack, WorksOnceAndOnlyBetweenBodies) {
  EXPECT_FALSE(run_.can_take_back());
  body(1);
  EXPECT_TRUE(run_.can_take_back());
  run_.take_back();
  EXPECT_EQ(error_of([&] { run_.take_back(); }), "there is no step to undo");
  ASSERT_TRUE(run_.begin_body(Json()).has_value());
  EXPECT_FALSE(run_.can_take_back());
}

}  // namespace
}  // namespace xrun::take_back_test

// A reference whose sidecar cannot be written: one error that names the file, and no later crash.

#include <gtest/gtest.h>

#include <fstream>

#include "core/base/error.h"
#include "core/base/file_fault.h"
#include "core/train/adamw.h"
#include "core/train/models/policy.h"
#include "core/train/models/reference.h"
#include "core/train/step.h"
#include "tests/core/train/tiny_pairs.h"
#include "tests/error_of.h"

namespace xrun::reference_fault_test {
namespace {

class ReferenceFault : public testing::Test {
 protected:
  void SetUp() override {
    policy_ = Policy::open(folder_.model());
    reference_ = policy_->reference();
    AdamWOptions options;
    options.lr = 1e-2;
    AdamW adamw({policy_}, options);
    train_step({{batch().get(), dpo(policy_, reference_, 0.1)}},
               &adamw);  // from here on the sidecar is read
  }
  void TearDown() override { set_file_fault("write", 0); }

  static std::shared_ptr<Batch> batch() {
    BatchInfo info;
    info.data_key = "data";
    return tiny_batch(tiny_pairs(3), 3, info);
  }
  std::string message_of_logprob() {
    try {
      reference_->logprob(*batch());
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  TinyFolder folder_;
  std::shared_ptr<Policy> policy_;
  std::shared_ptr<Reference> reference_;
};

TEST_F(ReferenceFault, AColumnThatCannotBeCreatedIsOneErrorAndLeavesNothingToFlush) {
  std::filesystem::create_directories(folder_.path() / "cache");
  std::ofstream(folder_.path() / "cache" / "columns") << "a file where the folder should be";
  EXPECT_NE(message_of_logprob().find("cache/columns/"), std::string::npos);
  EXPECT_NO_THROW(reference_->flush());
  EXPECT_NO_THROW(reference_.reset());
}

TEST_F(ReferenceFault, AFullDiskIsAnErrorAndTheValuesAreWrittenLater) {
  set_file_fault("write", 1);
  EXPECT_NE(message_of_logprob().find("key.json"), std::string::npos);
  EXPECT_NO_THROW(reference_->flush()) << "no sidecar is open";

  set_file_fault("write", 2);  // the key is written, the values are not
  const at::Tensor values = reference_->logprob(*batch());
  EXPECT_TRUE(
      throws<Error>("cannot be written: No space left on device", [&] { reference_->flush(); }));
  set_file_fault("write", 0);
  reference_->flush();
  EXPECT_EQ(reference_->counts().computed, 6);

  const auto again = std::make_shared<Reference>(policy_, folder_.model(), "", 0);
  EXPECT_EQ(again->logprob(*batch()).sum().item().toDouble(), values.sum().item().toDouble());
  EXPECT_EQ(again->counts().computed, 0);
}

TEST_F(ReferenceFault, ADestructorOnAFullDiskThrowsNothing) {
  reference_->logprob(*batch());
  set_file_fault("write", 1);
  EXPECT_NO_THROW(reference_.reset());
}

}  // namespace
}  // namespace xrun::reference_fault_test

// The compute type of products: measured, stored, and measured again if the stored file is bad.

#include "core/model/cost/gemm_choice.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "core/base/file.h"
#include "core/base/file_fault.h"
#include "core/base/temporary_dir.h"
#include "core/model/weights/hf_config.h"

namespace xrun::gemm_choice_test {
namespace {

class GemmChoiceTest : public testing::Test {
 protected:
  GemmChoiceTest() {
    setenv("XRUN_CACHE", folder_.c_str(), 1);
    config_.hidden = 64;
    config_.ffn = 128;
  }
  ~GemmChoiceTest() override { unsetenv("XRUN_CACHE"); }

  GemmChoice choose(double storage_ms, double float_ms,
                    c10::ScalarType dtype = c10::ScalarType::BFloat16) {
    return choose_gemm(config_, dtype, [&](const GemmShape&, c10::ScalarType) {
      ++measured_;
      return GemmTimes{storage_ms, float_ms};
    });
  }
  std::filesystem::path kept() const {
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(folder_ / "measured" / "gemm")) {
      if (entry.is_regular_file()) return entry.path();
    }
    return {};
  }

  const TemporaryDir temporary_{"gemm_test"};
  const std::filesystem::path folder_ = temporary_.path();
  ModelConfig config_;
  int measured_ = 0;
};

TEST_F(GemmChoiceTest, FullPrecisionIsNotMeasured) {
  const GemmChoice choice = choose(9, 1, c10::ScalarType::Float);
  EXPECT_EQ(choice.gemm, GemmType::kStorage);
  EXPECT_FALSE(choice.times);
  EXPECT_EQ(measured_, 0);
}

TEST_F(GemmChoiceTest, PicksTheFasterTypeAndStorageOnATie) {
  EXPECT_EQ(choose(2, 1).gemm, GemmType::kFloat);
  config_.ffn = 192;
  EXPECT_EQ(choose(1, 2).gemm, GemmType::kStorage);
  config_.ffn = 320;
  EXPECT_EQ(choose(1, 1).gemm, GemmType::kStorage);
}

TEST_F(GemmChoiceTest, IsRememberedAndNotMeasuredAgain) {
  EXPECT_FALSE(choose(2, 1).remembered);
  const GemmChoice again = choose(1, 2);
  EXPECT_EQ(measured_, 1);
  EXPECT_TRUE(again.remembered);
  EXPECT_EQ(again.gemm, GemmType::kFloat);
  EXPECT_EQ(again.times->storage_ms, 2);
  EXPECT_EQ(again.notice, "");
  config_.ffn = 192;
  choose(1, 2);
  EXPECT_EQ(measured_, 2) << "another shape is another measurement";
}

TEST_F(GemmChoiceTest, ADamagedFileIsMeasuredAgainAndReported) {
  choose(2, 1);
  const std::string sound = read_file(kept());
  const auto replaced = [&](const std::string& what, const std::string& by) {
    std::string text = sound;
    const size_t at = text.find(what);
    EXPECT_NE(at, std::string::npos) << what;
    return text.replace(at, what.size(), by);
  };
  for (const std::string& bad :
       {std::string(), std::string("{"), std::string("[1]"), std::string("{\"key\":3}"),
        sound.substr(0, sound.size() / 2), replaced("\"fp32\"", "\"fp8\""),
        replaced("\"fp32\"", "\"storage\""), replaced("\"fp32\"", "7"),
        replaced("\"storage_ms\":2", "\"storage_ms\":-2"),
        replaced("\"storage_ms\":2", "\"storage_ms\":\"two\""), replaced("\"rows\"", "\"raws\""),
        std::string(1 << 20, '[')}) {
    write_file_atomic(kept(), bad);
    measured_ = 0;
    const GemmChoice choice = choose(1, 3);
    EXPECT_EQ(measured_, 1) << bad.substr(0, 80);
    EXPECT_EQ(choice.gemm, GemmType::kStorage);
    EXPECT_NE(choice.notice.find("timed again"), std::string::npos) << choice.notice;
    EXPECT_TRUE(choose(9, 1).remembered) << "the file is whole again";
    EXPECT_EQ(measured_, 1);
  }
}

TEST_F(GemmChoiceTest, AFullDiskOrAFolderOfThatNameChangesNothing) {
  set_file_fault("write", 1);
  EXPECT_EQ(choose(2, 1).gemm, GemmType::kFloat);
  set_file_fault("", 0);
  EXPECT_EQ(choose(2, 1).gemm, GemmType::kFloat);
  const std::filesystem::path file = kept();
  std::filesystem::remove(file);
  std::filesystem::create_directory(file);
  EXPECT_EQ(choose(2, 1).gemm, GemmType::kFloat);
  EXPECT_EQ(measured_, 3);
}

TEST_F(GemmChoiceTest, TimesBothTypes) {
  const GemmTimes times = time_gemm({16, 32, 48}, c10::ScalarType::BFloat16);
  EXPECT_GT(times.storage_ms, 0);
  EXPECT_GT(times.float_ms, 0);
}

TEST_F(GemmChoiceTest, DescribesTheMeasurement) {
  EXPECT_EQ(describe(choose(20.14, 12.5)),
            "fp32: 12.5 ms a product with its gradients, 20.1 in bf16, measured now");
  EXPECT_EQ(describe(choose(1, 2)),
            "fp32: 12.5 ms a product with its gradients, 20.1 in bf16, as measured before");
}

}  // namespace
}  // namespace xrun::gemm_choice_test

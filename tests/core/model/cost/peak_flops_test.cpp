// The measured peak: a plausible rate within its time, remembered, and measured again if damaged.

#include "core/model/cost/peak_flops.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>

#include "core/base/file.h"
#include "core/base/temporary_dir.h"
#include "tests/scoped_variable.h"

namespace xrun::peak_flops_test {
namespace {

class Peak : public testing::Test {
 protected:
  Peak() { cache_.emplace("XRUN_CACHE", folder_.string()); }

  double measured(double rate, c10::ScalarType dtype = c10::ScalarType::Float, double reached = 0) {
    return measured_peak_flops(dtype, reached, [&](c10::ScalarType) {
      ++measurements_;
      return rate;
    });
  }
  std::filesystem::path file() const {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_)) {
      if (entry.is_regular_file()) return entry.path();
    }
    return {};
  }

  const TemporaryDir temporary_{"peak_test"};
  const std::filesystem::path folder_ = temporary_.path();
  std::optional<ScopedVariable> cache_;
  int measurements_ = 0;
};

TEST_F(Peak, IsRememberedForEachType) {
  EXPECT_EQ(measured(1.5e11), 1.5e11);
  EXPECT_EQ(measured(9e9), 1.5e11);
  EXPECT_EQ(measurements_, 1);
  EXPECT_EQ(measured(3e11, c10::ScalarType::BFloat16), 3e11);
  EXPECT_EQ(measurements_, 2);
}

TEST_F(Peak, IsMeasuredAgainIfTheFileIsDamagedOrHasNoRate) {
  measured(1e10);
  const std::string sound = read_file(file());
  for (const std::string& bad :
       {std::string("{"), sound.substr(0, sound.find("flops_per_s")) + "flops_per_s\": -1}"}) {
    write_file_atomic(file(), bad);
    measurements_ = 0;
    EXPECT_EQ(measured(2e10), 2e10) << bad;
    EXPECT_EQ(measured(3e10), 2e10) << "the file is whole again";
    EXPECT_EQ(measurements_, 1);
  }
}

TEST_F(Peak, IsMeasuredAgainIfAStepIsFaster) {
  const auto type = c10::ScalarType::Float;
  measured(1e10);
  EXPECT_EQ(measured(3e10, type, 1e10), 1e10);
  EXPECT_EQ(measured(3e10, type, 2e10), 3e10);
  EXPECT_EQ(measured(3e10, type, 4e10), 4e10) << "the probe was slowed down again";
  EXPECT_EQ(measured(1e10), 4e10);
}

TEST_F(Peak, IsMeasuredWithinASecond) {
  const auto begin = std::chrono::steady_clock::now();
  const double peak = time_peak(c10::ScalarType::Float);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  EXPECT_GT(peak, 1e8);
  EXPECT_LT(peak, 1e15);
  EXPECT_LT(seconds.count(), 3) << "0.2 s on an idle machine";
}

}  // namespace
}  // namespace xrun::peak_flops_test

// Memory of a device other than the host: the numbers of its allocator and the code that uses them.

#include "core/model/ops/device_memory.h"

#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "core/base/error.h"
#include "core/model/ops/allocator.h"
#include "core/model/weights/init_model.h"
#include "tests/device/device_train.h"
#include "tests/error_of.h"
#include "tests/pretend/pretend_memory.h"

namespace xrun::device_memory_test {
namespace {

constexpr int64_t kMb = 1'000'000;

class DeviceMemoryTest : public testing::Test {
 protected:
  ~DeviceMemoryTest() override {
    unsetenv("XRUN_MEMORY_MB");
    set_pretend_capacity(int64_t{1} << 40);
  }
  at::Tensor megabytes(int64_t n) const {
    return at::zeros({n * kMb / 4}, at::dtype(at::kFloat).device(device_));
  }
  const c10::Device device_ = pretend_device();
};

TEST_F(DeviceMemoryTest, MatchesTheAllocatorsCount) {
  const int64_t before = device_memory(device_).held;
  reset_device_peak(device_);
  set_pretend_capacity(before + 100 * kMb);
  const at::Tensor stays = megabytes(30);
  megabytes(20);
  const DeviceMemory memory = device_memory(device_);
  EXPECT_EQ(memory.held - before, 30 * kMb);
  EXPECT_EQ(memory.peak - before, 50 * kMb);
  EXPECT_EQ(memory.available, 70 * kMb);
  reset_device_peak(device_);
  EXPECT_EQ(device_memory(device_).peak, memory.held);
}

TEST_F(DeviceMemoryTest, TheSettingLimitsTensorMemory) {
  const at::Tensor stays = megabytes(30);
  const int64_t held = device_memory(device_).held;
  setenv("XRUN_MEMORY_MB", "1000", 1);
  EXPECT_EQ(device_memory(device_).available, 1000 * kMb - held);
  setenv("XRUN_MEMORY_MB", "1", 1);
  EXPECT_EQ(device_memory(device_).available, 1) << "0 would be unknown";
  setenv("XRUN_MEMORY_MB", "much", 1);
  EXPECT_EQ(message_of<Error>([&] { device_memory(device_); }),
            "XRUN_MEMORY_MB is \"much\", wanted a whole number of MB above 0");
}

TEST_F(DeviceMemoryTest, HostMemoryUsesItsOwnCounter) {
  setenv("XRUN_MEMORY_MB", "1000", 1);
  EXPECT_EQ(device_memory(c10::kCPU).held, memory_count().held);
  EXPECT_EQ(device_memory(c10::kCPU).available, available_bytes());
}

TEST_F(DeviceMemoryTest, AModelThatDoesNotFitIsRefused) {
  const TinyFolder folder;
  PolicyOptions options;
  options.device = device_;
  const auto policy = Policy::open(folder.model(), options);
  set_pretend_capacity(device_memory(device_).held + 10'000);
  EXPECT_TRUE(throws<Error>("are available", [&] { policy->model(); }));
  set_pretend_capacity(int64_t{1} << 40);
  EXPECT_NO_THROW(policy->model());
}

// Merged and rounded weights exist one at a time.
TEST_F(DeviceMemoryTest, AnExportHoldsOnlyAFewWeights) {
  const TinyFolder folder;
  const std::filesystem::path dir = folder.path() / "deep";
  init_model(dir, {.layers = 12, .hidden = 64, .ffn = 128, .vocab = 128});
  PolicyOptions options;
  options.device = device_;
  for (const bool lora : {false, true}) {
    if (lora) options.lora = AdapterOptions{.rank = 4};
    const auto policy = Policy::open(dir, options);
    int64_t largest = 0, all = 0;
    for (const Parameter& parameter : policy->model().parameters()) {
      largest = std::max(largest, static_cast<int64_t>(parameter.master.nbytes()));
      all += static_cast<int64_t>(parameter.master.nbytes());
    }
    reset_device_peak(device_);
    const int64_t before = device_memory(device_).held;
    policy->export_to(folder.path() / (lora ? "a" : "b"), c10::ScalarType::BFloat16);
    const int64_t took = device_memory(device_).peak - before;
    EXPECT_LT(took, 4 * largest) << lora;
    EXPECT_GT(all, 10 * 4 * largest);
  }
}

}  // namespace
}  // namespace xrun::device_memory_test

// The available memory according to the system's files.

#include "core/model/ops/device_memory.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/temporary_dir.h"
#include "core/model/model.h"
#include "core/model/ops/allocator.h"
#include "core/model/weights/init_model.h"
#include "tests/core/model/load_model.h"
#include "tests/error_of.h"

namespace xrun::device_memory_test {
namespace {

constexpr int64_t kMiB = 1 << 20;

class AvailableMemory : public testing::Test {
 protected:
  ~AvailableMemory() override { unsetenv("XRUN_MEMORY_MB"); }

  void file(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((folder_ / name).parent_path());
    write_file_atomic(folder_ / name, text);
  }
  void system(int64_t mib) {
    file("proc/meminfo", "MemTotal:       99999999 kB\nMemFree:   12 kB\nMemAvailable:   " +
                             std::to_string(mib * 1024) + " kB\nBuffers: 5 kB\n");
  }
  void group(const std::string& dir, const std::string& limit, int64_t used_mib, int64_t cache_mib,
             bool second = true) {
    const std::string at = "sys/fs/cgroup/" + dir;
    file(at + (second ? "/memory.max" : "/memory.limit_in_bytes"), limit + "\n");
    file(at + (second ? "/memory.current" : "/memory.usage_in_bytes"),
         std::to_string(used_mib * kMiB) + "\n");
    file(at + "/memory.stat", std::string("anon 7\n") +
                                  (second ? "inactive_file " : "total_inactive_file ") +
                                  std::to_string(cache_mib * kMiB) + "\n");
  }
  static std::string mib(int64_t n) { return std::to_string(n * kMiB); }

  std::string load_error() {
    const std::filesystem::path dir = folder_ / "model";
    if (!std::filesystem::exists(dir)) init_model(dir, init_preset("tiny"));
    try {
      load_model(dir, at::kFloat, /*trainable=*/true);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  const TemporaryDir temporary_{"memory_test"};
  const std::filesystem::path folder_ = temporary_.path();
};

TEST_F(AvailableMemory, IsTheAvailableSystemMemory) {
  system(900);
  EXPECT_EQ(system_bytes(folder_), 900 * kMiB);
  std::filesystem::remove_all(folder_ / "proc");
  EXPECT_EQ(system_bytes(folder_), 0) << "nobody can tell";
  EXPECT_GT(available_bytes(), 0) << "of this machine";
}

TEST_F(AvailableMemory, AControlGroupAndItsParentsLimitIt) {
  system(900);
  file("proc/self/cgroup", "0::/pod/run\n");
  group("pod/run", "max", 10, 0);
  EXPECT_EQ(system_bytes(folder_), 900 * kMiB);
  group("pod", mib(500), 300, 0);
  EXPECT_EQ(system_bytes(folder_), 200 * kMiB);
  group("pod/run", mib(250), 120, 20);
  EXPECT_EQ(system_bytes(folder_), 150 * kMiB) << "20 MiB of files are given back";
  file("sys/fs/cgroup/pod/run/memory.stat",
       "active_file " + mib(30) + "\ninactive_file " + mib(20) + "\n");
  EXPECT_EQ(system_bytes(folder_), 180 * kMiB) << "also those that were read twice";
  group("pod/run", mib(100), 120, 0);
  EXPECT_EQ(system_bytes(folder_), 1) << "full, which is not the same as unknown";
}

TEST_F(AvailableMemory, VersionOneAndADamagedFileAreRead) {
  system(900);
  file("proc/self/cgroup", "9:name=systemd:/\n4:memory:/a/b\nno line\n");
  group("memory/a", mib(400), 100, 50, /*second=*/false);
  EXPECT_EQ(system_bytes(folder_), 350 * kMiB);
  for (const char* bad : {"", "-5", "much", "99999999999999999999999"}) {
    file("sys/fs/cgroup/memory/a/memory.limit_in_bytes", bad);
    EXPECT_EQ(system_bytes(folder_), 900 * kMiB) << bad;
  }
}

TEST_F(AvailableMemory, AVariableReplacesItAndIsChecked) {
  setenv("XRUN_MEMORY_MB", "32", 1);
  EXPECT_EQ(available_bytes(), 32'000'000 - memory_count().held);
  for (const char* bad : {"0", "-1", "lots", "99999999999999"}) {
    setenv("XRUN_MEMORY_MB", bad, 1);
    EXPECT_EQ(error_of([] { available_bytes(); }),
              fmt::format("XRUN_MEMORY_MB is \"{}\", wanted a whole number of MB above 0", bad));
  }
}

TEST_F(AvailableMemory, TheVariableCountsBytesThatTensorsHold) {
  install_memory_count();
  setenv("XRUN_MEMORY_MB", "100", 1);
  const at::Tensor tensor = at::zeros({16 * kMiB}, at::kByte);
  EXPECT_LE(available_bytes(), 100'000'000 - 16 * kMiB);
  EXPECT_GT(available_bytes(), 50'000'000);
  const at::Tensor more = at::zeros({96 * kMiB}, at::kByte);
  EXPECT_EQ(available_bytes(), 1) << "0 would be unknown";
}

// As between two phases of a run: the system counts the heap as used. In its own process, since
// the heap of this one holds what earlier tests left free.
TEST_F(AvailableMemory, SlowTheFreeHeapIsAvailableToASecondPlan) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto gains = [this] {
    tune_allocator();
    system(100);
    at::Tensor tensor = at::zeros({400 * kMiB}, at::kByte);
    const int64_t held = available_bytes(folder_);
    tensor.reset();
    const bool gained = available_bytes(folder_) - held >= 300 * kMiB;
    remove_temporary_dirs();
    _exit(gained ? 0 : 1);
  };
  EXPECT_EXIT(gains(), testing::ExitedWithCode(0), "");
}

TEST_F(AvailableMemory, WeightsBeyondItAreRefusedBeforeTheyAreRead) {
  EXPECT_EQ(load_error(), "");
  // No byte of the weights is read.
  std::filesystem::resize_file(folder_ / "model" / "model.safetensors", 100);
  setenv("XRUN_MEMORY_MB", std::to_string(20 + memory_count().held / 1'000'000).c_str(), 1);
  const std::string error = load_error();
  EXPECT_NE(error.find("the weights need 4"), std::string::npos) << error;
  EXPECT_NE(error.find(" MB are available"), std::string::npos) << error;
}

TEST(MemoryCount, AHugeTensorIsOutOfMemoryWithItsSize) {
  install_memory_count();
  try {
    at::empty({int64_t{1} << 50}, at::kFloat);
    FAIL() << "4.5 PB were allocated";
  } catch (const c10::OutOfMemoryError& error) {
    const std::string message = error.what_without_backtrace();
    EXPECT_TRUE(message.starts_with("out of memory: 4504 TB cannot be allocated; lower "))
        << message;
  }
}

}  // namespace
}  // namespace xrun::device_memory_test

// What memory there is by the system's files, and what is refused and proposed where it is too
// little.

#include "core/model/memory_limit.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/model/hf_config.h"
#include "core/model/init_model.h"
#include "core/model/memory_plan.h"
#include "core/model/model.h"

namespace xrun {
namespace {

constexpr int64_t kMiB = 1 << 20;

class MemoryLimit : public testing::Test {
 protected:
  MemoryLimit() {
    std::string name = std::filesystem::temp_directory_path() / "xrun_memory_XXXXXX";
    XRUN_CHECK(mkdtemp(name.data()) != nullptr, "{}: cannot be made", name);
    folder_ = name;
  }
  ~MemoryLimit() override {
    unsetenv("XRUN_MEMORY_MB");
    std::filesystem::remove_all(folder_);
  }

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
      Model::load(dir, at::kFloat, /*trainable=*/true);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  std::filesystem::path folder_;
};

TEST_F(MemoryLimit, IsWhatTheSystemCanGive) {
  system(900);
  EXPECT_EQ(available_bytes(folder_), 900 * kMiB);
  std::filesystem::remove_all(folder_ / "proc");
  EXPECT_EQ(available_bytes(folder_), 0) << "nobody can tell";
  EXPECT_GT(available_bytes(), 0) << "of this machine";
}

TEST_F(MemoryLimit, AControlGroupAndThoseAboveItLimitIt) {
  system(900);
  file("proc/self/cgroup", "0::/pod/run\n");
  group("pod/run", "max", 10, 0);
  EXPECT_EQ(available_bytes(folder_), 900 * kMiB);
  group("pod", mib(500), 300, 0);
  EXPECT_EQ(available_bytes(folder_), 200 * kMiB);
  group("pod/run", mib(250), 120, 20);
  EXPECT_EQ(available_bytes(folder_), 150 * kMiB) << "20 MiB of files are given back";
  group("pod/run", mib(100), 120, 0);
  EXPECT_EQ(available_bytes(folder_), 1) << "full, which is not the same as unknown";
}

TEST_F(MemoryLimit, VersionOneAndADamagedFileAreRead) {
  system(900);
  file("proc/self/cgroup", "9:name=systemd:/\n4:memory:/a/b\nno line\n");
  group("memory/a", mib(400), 100, 50, /*second=*/false);
  EXPECT_EQ(available_bytes(folder_), 350 * kMiB);
  for (const char* bad : {"", "-5", "much", "99999999999999999999999"}) {
    file("sys/fs/cgroup/memory/a/memory.limit_in_bytes", bad);
    EXPECT_EQ(available_bytes(folder_), 900 * kMiB) << bad;
  }
}

TEST_F(MemoryLimit, AVariableStandsInItsPlaceAndIsChecked) {
  setenv("XRUN_MEMORY_MB", "32", 1);
  EXPECT_EQ(available_bytes(), 32'000'000);
  for (const char* bad : {"0", "-1", "lots", "99999999999999"}) {
    setenv("XRUN_MEMORY_MB", bad, 1);
    EXPECT_THROW(available_bytes(), Error) << bad;
  }
}

TEST_F(MemoryLimit, WeightsBeyondItAreRefusedBeforeTheyAreRead) {
  EXPECT_EQ(load_error(), "");
  // Not even a byte of them is looked at.
  std::filesystem::resize_file(folder_ / "model" / "model.safetensors", 100);
  setenv("XRUN_MEMORY_MB", "20", 1);
  const std::string error = load_error();
  EXPECT_NE(error.find("the weights need 4"), std::string::npos) << error;
  EXPECT_NE(error.find("20 MB are available"), std::string::npos) << error;
}

class SmallestChange : public testing::Test {
 protected:
  SmallestChange() {
    InitOptions init = init_preset("tiny");
    const std::filesystem::path dir =
        std::filesystem::temp_directory_path() / ("xrun_change_" + std::to_string(getpid()));
    std::filesystem::remove_all(dir);
    init_model(dir, init);
    config_ = read_model_config(dir);
    std::filesystem::remove_all(dir);
    shape_.tokens = 8192;
    shape_.loss_rows = 4096;
  }
  int64_t need(const MemoryShape& shape) const { return total_bytes(memory_plan(config_, shape)); }
  std::string error(int64_t available, int64_t held = 0) const {
    try {
      check_memory(config_, shape_, /*longest=*/512, held, available);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  static void expect_has(const std::string& text, const std::string& piece) {
    EXPECT_NE(text.find(piece), std::string::npos) << text << "\n  lacks: " << piece;
  }

  ModelConfig config_;
  MemoryShape shape_;
};

TEST_F(SmallestChange, WhatFitsIsNotRefused) {
  EXPECT_EQ(error(need(shape_)), "");
  EXPECT_EQ(error(need(shape_) - 1000, 1000), "") << "what is held already is not needed again";
  EXPECT_EQ(error(0), "") << "unknown";
  EXPECT_NE(error(need(shape_) - 1), "");
}

TEST_F(SmallestChange, KindsAndBothTotalsAreNamed) {
  const std::string text = error(need(shape_) - 1);
  expect_has(text, "the run needs about ");
  expect_has(text, "activations ");
  expect_has(text, " are available; ");
}

TEST_F(SmallestChange, GoesFromWhatCostsALittleTimeToWhatTrainsSomethingElse) {
  MemoryShape less = shape_;
  less.head_mb = 64;
  ASSERT_LT(need(less), need(shape_));
  expect_has(error(need(less)), "; head_mb = 64 makes it ");
  shape_.head_mb = 64;
  less.recompute = true;
  ASSERT_LT(need(less), need(shape_));
  expect_has(error(need(less)), "; recompute = true makes it ");
  shape_.recompute = true;
  expect_has(error(need(shape_) - kMiB), "; batch.max_tokens = ");
  MemoryShape none = shape_;
  none.tokens = none.loss_rows = 0;
  const std::string lora = error(need(none) - kMiB);
  expect_has(lora, "lora = { rank = 16 }");
  expect_has(error(kMiB), "no setting makes it fit");
}

TEST_F(SmallestChange, NoMicroBatchIsProposedBelowTheLongestSequence) {
  for (int64_t mib = 40; mib < need(shape_) / kMiB; mib += 20) {
    const std::string text = error(mib * kMiB);
    const std::string mark = "batch.max_tokens = ";
    const size_t at = text.find(mark);
    if (at == std::string::npos) continue;
    EXPECT_GE(std::stoll(text.substr(at + mark.size())), 512) << text;
  }
}

}  // namespace
}  // namespace xrun

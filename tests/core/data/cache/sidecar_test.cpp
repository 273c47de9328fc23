// A sidecar returns the values that were written, or none, after kills, flipped bytes and
// concurrent writers.

#include "core/data/cache/sidecar.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <csignal>
#include <fstream>
#include <memory>
#include <thread>

#include "core/base/activity.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/file_fault.h"
#include "core/base/file_lock.h"
#include "core/base/interrupt.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace xrun::sidecar_test {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kRecord = 24 + 8 + 8;  // head, one f32 padded, check

class SidecarTest : public testing::Test {
 protected:
  SidecarTest() {
    key_.name = "reference_logprobs";
    key_.made_by.set("weights", "abc");
  }
  ~SidecarTest() override { set_file_fault("", 0); }

  Sidecar open() const { return Sidecar(folder_.path(), key_); }
  static void add(Sidecar& sidecar, const SidecarEntry& entry, float value) {
    sidecar.add<float>(entry, std::array{value});
  }
  static std::optional<float> find(const Sidecar& sidecar, const SidecarEntry& entry) {
    const auto values = sidecar.find<float>(entry);
    return values ? std::optional(values->at(0)) : std::nullopt;
  }
  fs::path file() const { return open().dir() / "values.bin"; }
  void write_three() const {
    Sidecar sidecar = open();
    for (int64_t row = 0; row < 3; ++row) add(sidecar, {row, 0, 1}, static_cast<float>(-row));
    sidecar.flush();
  }

  ScratchFolder folder_;
  SidecarKey key_;
};

TEST_F(SidecarTest, AFlushThatWaitsForTheLockShowsActivity) {
  Sidecar sidecar = open();
  add(sidecar, {1, 0, 1}, -1.f);
  auto lock = std::make_unique<FileLock>(sidecar.dir() / "lock", /*wait=*/true);
  const uint64_t before = activity_count();
  std::thread writer([&] { sidecar.flush(); });
  for (int tries = 0; tries < 400 && activity_count() < before + 3; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_GE(activity_count(), before + 3);
  lock.reset();
  writer.join();
  EXPECT_EQ(open().size(), 1u);
}

TEST_F(SidecarTest, AFlushIsNotInterrupted) {
  Sidecar sidecar = open();
  add(sidecar, {1, 0, 1}, -1.f);
  request_interrupt(SIGTERM);
  EXPECT_NO_THROW(sidecar.flush());
  EXPECT_NO_THROW(sidecar.refresh());
  clear_interrupt();
  EXPECT_EQ(open().size(), 1u);
}

TEST_F(SidecarTest, ReadsValuesThatAnotherOpeningAdded) {
  Sidecar sidecar = open();
  EXPECT_FALSE(Sidecar::exists(folder_.path(), key_));
  add(sidecar, {7, 1, 99}, -12.5f);
  add(sidecar, {7, -1, 98}, -13.25f);
  EXPECT_EQ(find(sidecar, {7, 1, 99}), -12.5f);
  EXPECT_EQ(open().size(), 0u) << "not yet flushed";
  sidecar.flush();
  EXPECT_EQ(sidecar.size(), 2u);
  EXPECT_TRUE(Sidecar::exists(folder_.path(), key_));
  const Sidecar again = open();
  EXPECT_EQ(find(again, {7, 1, 99}), -12.5f);
  EXPECT_EQ(find(again, {7, -1, 98}), -13.25f);
  EXPECT_EQ(find(again, {8, 1, 99}), std::nullopt);
  EXPECT_TRUE(again.has(7, 1) && again.has(7, -1));
  EXPECT_FALSE(again.has(7, 0) || again.has(8, 1));
}

TEST_F(SidecarTest, JaggedValuesOfATypeComeBackByRow) {
  key_.type = ColumnType::kU16;
  key_.width = 0;
  {
    Sidecar sidecar = open();
    for (uint16_t row = 0; row < 90; ++row) {
      sidecar.add<uint16_t>({row, 0, 1}, std::vector<uint16_t>(row % 5, row));
    }
    sidecar.flush();
  }
  const Sidecar sidecar = open();
  ASSERT_EQ(sidecar.size(), 90u);
  for (uint16_t row = 0; row < 90; ++row) {
    ASSERT_EQ(sidecar.find<uint16_t>({row, 0, 1}), std::vector<uint16_t>(row % 5, row));
  }
  EXPECT_EQ(error_of([&] {
              sidecar.find<float>({1, 0, 1});
            }),
            sidecar.dir().string() + ": its values have 2 bytes, 4 were asked for");
}

TEST_F(SidecarTest, AnEntryHasTheWidthOfTheKey) {
  key_.width = 3;
  Sidecar sidecar = open();
  sidecar.add<float>({1, 0, 1}, std::array{1.f, 2.f, 3.f});
  const std::string where = sidecar.dir().string() + ": an entry of ";
  EXPECT_EQ(error_of([&] {
              sidecar.add<float>({2, 0, 1}, std::array{1.f, 2.f});
            }),
            where + "2 values of 4 bytes, wanted 3 of 4 bytes");
  EXPECT_EQ(error_of([&] {
              sidecar.add<double>({2, 0, 1}, std::array{1., 2., 3.});
            }),
            where + "3 values of 8 bytes, wanted 3 of 4 bytes");
  EXPECT_EQ(sidecar.size(), 1u);
}

TEST_F(SidecarTest, MissesForOtherTokensAndHoldsBoth) {
  Sidecar sidecar = open();
  add(sidecar, {7, 1, 99}, -12.5f);
  EXPECT_EQ(find(sidecar, {7, 1, 100}), std::nullopt);
  add(sidecar, {7, 1, 100}, -1.f);
  sidecar.flush();
  EXPECT_EQ(find(open(), {7, 1, 99}), -12.5f);
  EXPECT_EQ(find(open(), {7, 1, 100}), -1.f);
}

TEST_F(SidecarTest, DifferentKeysHaveDifferentFolders) {
  write_three();
  const fs::path dir = open().dir();
  key_.made_by.set("weights", "abd");
  EXPECT_EQ(open().size(), 0u);
  EXPECT_NE(open().dir(), dir);
  key_.made_by.set("weights", "abc");
  key_.name = "alignment";
  EXPECT_NE(open().dir(), dir);
}

TEST_F(SidecarTest, ATornTailIsIgnoredAndCutBeforeAppending) {
  write_three();
  const fs::path path = file();
  ASSERT_EQ(fs::file_size(path), 3 * kRecord);
  fs::resize_file(path, 2 * kRecord + 17);
  Sidecar sidecar = open();
  EXPECT_EQ(sidecar.size(), 2u);
  EXPECT_NE(sidecar.damage().find("ends inside the record at byte"), std::string::npos);
  add(sidecar, {9, 0, 1}, -9.f);
  sidecar.flush();
  EXPECT_EQ(open().damage(), "");
  EXPECT_EQ(fs::file_size(path), 3 * kRecord);
  EXPECT_EQ(find(open(), {1, 0, 1}), -1.f);
  EXPECT_EQ(find(open(), {9, 0, 1}), -9.f);
}

TEST_F(SidecarTest, AKillAtAnyByteLosesNoWholeRecord) {
  write_three();
  const fs::path path = file();
  const std::string whole = read_file(path);
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    std::ofstream(path, std::ios::binary) << whole.substr(0, bytes);
    ASSERT_EQ(open().size(), bytes / kRecord) << bytes;
    const auto checks = verify_sidecars(folder_.path());
    ASSERT_EQ(checks.size(), 1u);
    ASSERT_EQ(checks[0].problem, "") << "a torn tail is not a problem";
  }
}

TEST_F(SidecarTest, AFlippedByteLosesValuesButGivesNoWrongOne) {
  write_three();
  const fs::path path = file();
  const std::string whole = read_file(path);
  for (size_t at = kRecord; at < 2 * kRecord; ++at) {
    std::string bytes = whole;
    bytes[at] ^= 1;
    std::ofstream(path, std::ios::binary) << bytes;
    const Sidecar sidecar = open();
    ASSERT_EQ(find(sidecar, {0, 0, 1}), 0.f);
    ASSERT_EQ(find(sidecar, {1, 0, 1}), std::nullopt) << at;
    ASSERT_NE(sidecar.damage(), "") << at;
  }
}

TEST_F(SidecarTest, AFlippedByteOfAJaggedSidecarIsNamed) {
  key_.width = 0;
  write_three();
  const fs::path path = file();
  const std::string whole = read_file(path);
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string bytes = whole;
    bytes[at] ^= static_cast<char>(0x80);
    std::ofstream(path, std::ios::binary) << bytes;
    ASSERT_NE(open().damage().find(path.string()), std::string::npos) << at;
  }
}

TEST_F(SidecarTest, VerifyFindsAFlippedByteAndAnotherKey) {
  write_three();
  const auto problem = [&] { return verify_sidecars(folder_.path()).at(0).problem; };
  EXPECT_EQ(problem(), "");
  EXPECT_EQ(verify_sidecars(folder_.path()).at(0).entries, 3);
  EXPECT_TRUE(verify_sidecars(folder_.path() / "none").empty());
  const fs::path path = file();
  const std::string whole = read_file(path);
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string bytes = whole;
    bytes[at] ^= 1;
    std::ofstream(path, std::ios::binary) << bytes;
    ASSERT_NE(problem().find("is damaged at byte"), std::string::npos) << at;
  }
  std::ofstream(path, std::ios::binary) << whole;
  std::ofstream(path.parent_path() / "key.json") << "{}";
  EXPECT_NE(problem().find("does not hash to the name of its folder"), std::string::npos);
}

TEST_F(SidecarTest, VerifyFindsAJaggedCountBeyondTheEndUnlessItIsTheLastRecord) {
  key_.width = 0;
  write_three();
  const fs::path path = file();
  const std::string whole = read_file(path);
  for (const uint64_t record : {0, 1, 2}) {
    std::string bytes = whole;
    bytes[record * kRecord + 12 + 2] = 1;  // 65,537 values
    std::ofstream(path, std::ios::binary) << bytes;
    const SidecarCheck check = verify_sidecars(folder_.path()).at(0);
    EXPECT_EQ(check.entries, static_cast<int64_t>(record));
    // Nothing tells the last one from a torn one.
    EXPECT_EQ(check.problem.find("is damaged at byte") == std::string::npos, record == 2);
  }
  // A kill inside a record leaves no whole one behind its head.
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    std::ofstream(path, std::ios::binary) << whole.substr(0, bytes);
    ASSERT_EQ(verify_sidecars(folder_.path()).at(0).problem, "") << bytes;
  }
}

TEST_F(SidecarTest, TwoWritersKeepEachOthersValues) {
  Sidecar one = open(), two = open();
  add(one, {1, 0, 1}, -1.f);
  add(two, {2, 0, 1}, -2.f);
  add(two, {1, 0, 1}, -1.f);
  one.flush();
  two.flush();
  EXPECT_EQ(find(two, {1, 0, 1}), -1.f) << "a flush reads what others appended";
  add(one, {3, 0, 1}, -3.f);
  one.flush();
  EXPECT_EQ(open().size(), 3u);
  EXPECT_EQ(fs::file_size(file()), 3 * kRecord) << "an entry of both is there once";
}

TEST_F(SidecarTest, AFullDiskIsAnErrorThatKeepsTheValues) {
  Sidecar sidecar = open();
  add(sidecar, {1, 0, 1}, -1.f);
  set_file_fault("write", 1);
  EXPECT_EQ(error_of([&] { sidecar.flush(); }),
            file().string() + ": cannot be written: No space left on device; free some space");
  set_file_fault("write", 0);
  EXPECT_EQ(find(sidecar, {1, 0, 1}), -1.f);
  sidecar.flush();
  EXPECT_EQ(find(open(), {1, 0, 1}), -1.f);
}

TEST_F(SidecarTest, RefusesAFolderOfAnotherKey) {
  std::ofstream(open().dir() / "key.json") << "{\"weights\":\"other\"}";
  EXPECT_TRUE(throws<Error>("does not belong to its folder", [&] { open(); }));
}

TEST_F(SidecarTest, WaitingForAnotherProcessEndsWithAnInterrupt) {
  const FileLock other(open().dir() / "lock", /*wait=*/true);
  request_interrupt(SIGINT);
  EXPECT_EQ(signal_of([&] { open(); }), SIGINT);
  clear_interrupt();
}

}  // namespace
}  // namespace xrun::sidecar_test

#include "core/train/logprob_column.h"

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/interrupt.h"

namespace xrun::logprob_column_test {
namespace {

class LogprobColumnTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    root_ = std::filesystem::temp_directory_path() /
            fmt::format("xrun_column_{}_{}", test->name(), getpid());
    std::filesystem::remove_all(root_);
    key_.set("weights", "abc");
  }
  void TearDown() override {
    set_file_fault("write", 0);
    std::filesystem::remove_all(root_);
  }
  std::filesystem::path file() const { return LogprobColumn(root_, key_).dir() / "column.bin"; }

  std::filesystem::path root_;
  Json key_ = Json::object();
};

TEST_F(LogprobColumnTest, WaitingForAnotherProcessEndsWithAnInterrupt) {
  const std::filesystem::path dir = LogprobColumn(root_, key_).dir();
  const FileLock other(dir / "lock", /*wait=*/true);
  request_interrupt(SIGINT);
  EXPECT_THROW(LogprobColumn(root_, key_), Interrupted);
  clear_interrupt();
}

TEST_F(LogprobColumnTest, GivesBackWhatAnotherOpeningAdded) {
  LogprobColumn column(root_, key_);
  column.add(7, 1, 99, -12.5f);
  column.add(7, -1, 98, -13.25f);
  EXPECT_EQ(column.find(7, 1, 99), -12.5f);
  EXPECT_EQ(LogprobColumn(root_, key_).size(), 0u) << "not yet flushed";
  column.flush();
  LogprobColumn again(root_, key_);
  EXPECT_EQ(again.find(7, 1, 99), -12.5f);
  EXPECT_EQ(again.find(7, -1, 98), -13.25f);
  EXPECT_EQ(again.find(8, 1, 99), std::nullopt);
}

TEST_F(LogprobColumnTest, MissesForOtherTokens) {
  LogprobColumn column(root_, key_);
  column.add(7, 1, 99, -12.5f);
  EXPECT_EQ(column.find(7, 1, 100), std::nullopt);
}

TEST_F(LogprobColumnTest, AnotherKeyIsAnotherFolder) {
  LogprobColumn column(root_, key_);
  column.add(1, 1, 1, -1.f);
  column.flush();
  Json other = key_;
  other.set("weights", "abd");
  LogprobColumn second(root_, other);
  EXPECT_EQ(second.size(), 0u);
  EXPECT_NE(second.dir(), column.dir());
}

TEST_F(LogprobColumnTest, IgnoresATornTailAndCutsItBeforeAppending) {
  {
    LogprobColumn column(root_, key_);
    for (int64_t row = 0; row < 3; ++row) column.add(row, 0, 1, static_cast<float>(-row));
    column.flush();
  }
  const std::filesystem::path path = file();
  std::filesystem::resize_file(path, 2 * 40 + 17);
  LogprobColumn column(root_, key_);
  EXPECT_EQ(column.size(), 2u);
  column.add(9, 0, 1, -9.f);
  column.flush();
  EXPECT_EQ(std::filesystem::file_size(path), 3u * 40);
  LogprobColumn again(root_, key_);
  EXPECT_EQ(again.find(1, 0, 1), -1.f);
  EXPECT_EQ(again.find(9, 0, 1), -9.f);
}

TEST_F(LogprobColumnTest, AFlippedByteLosesValuesButGivesNoWrongOne) {
  {
    LogprobColumn column(root_, key_);
    for (int64_t row = 0; row < 3; ++row) column.add(row, 0, 1, static_cast<float>(-row));
    column.flush();
  }
  const std::filesystem::path path = file();
  std::string bytes = read_file(path);
  bytes[40 + 25] ^= 1;  // the second record's value
  std::ofstream(path, std::ios::binary) << bytes;
  LogprobColumn column(root_, key_);
  EXPECT_EQ(column.find(0, 0, 1), 0.f);
  EXPECT_EQ(column.find(1, 0, 1), std::nullopt);
}

TEST_F(LogprobColumnTest, TwoWritersKeepEachOthersValues) {
  LogprobColumn one(root_, key_), two(root_, key_);
  one.add(1, 0, 1, -1.f);
  two.add(2, 0, 1, -2.f);
  one.flush();
  two.flush();
  EXPECT_EQ(two.find(1, 0, 1), -1.f) << "a flush reads what others appended";
  one.add(3, 0, 1, -3.f);
  one.flush();
  EXPECT_EQ(LogprobColumn(root_, key_).size(), 3u);
}

TEST_F(LogprobColumnTest, AFullDiskIsAnErrorThatKeepsTheValues) {
  LogprobColumn column(root_, key_);
  column.add(1, 0, 1, -1.f);
  set_file_fault("write", 1);
  EXPECT_THROW(column.flush(), Error);
  set_file_fault("write", 0);
  EXPECT_EQ(column.find(1, 0, 1), -1.f);
  column.flush();
  EXPECT_EQ(LogprobColumn(root_, key_).find(1, 0, 1), -1.f);
}

TEST_F(LogprobColumnTest, RefusesAFolderWhoseKeyDocumentIsAnothers) {
  const std::filesystem::path dir = LogprobColumn(root_, key_).dir();
  std::ofstream(dir / "key.json") << "{\"weights\":\"other\"}";
  try {
    LogprobColumn column(root_, key_);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("does not belong to its folder"), std::string::npos);
  }
}

}  // namespace
}  // namespace xrun::logprob_column_test

// The history survives sessions, concurrent writers, hostile bytes and an unusable file.

#include "core/console/terminal/history.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>

#include "core/base/error.h"
#include "core/base/file.h"
#include "tests/scoped_variable.h"
#include "tests/scratch_folder.h"

namespace xrun::history_test {
namespace {

class HistoryTest : public testing::Test {
 protected:
  void write(std::string_view bytes) {
    std::filesystem::create_directories(file_.parent_path());
    write_file_atomic(file_, std::string(bytes));
  }
  const ScratchFolder scratch_;
  const std::filesystem::path file_ = scratch_ / "deep/history";
};

TEST_F(HistoryTest, KeepsInputsOfSeveralLinesForTheNextSession) {
  {
    History history(file_);
    history.add("a = 1");
    history.add("for i = 1, 2 do\n  print('\\n')\nend");
    EXPECT_EQ(history.problem(), "");
  }
  EXPECT_EQ(History(file_).inputs(),
            (std::vector<std::string>{"a = 1", "for i = 1, 2 do\n  print('\\n')\nend"}));
  struct stat about {};
  ASSERT_EQ(stat(file_.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0600u);
}

TEST_F(HistoryTest, LeavesOutBlankRepeatedAndPrivateInputs) {
  History history(file_);
  for (const char* input : {"x", "x", " secret", "", "\n", "y", "x"}) history.add(input);
  EXPECT_EQ(history.inputs(), (std::vector<std::string>{"x", "y", "x"}));
}

TEST_F(HistoryTest, HostileBytesBecomeHarmlessText) {
  write(std::string("ok\n\x1b]0;evil\x07 x\nbad\xff\xfe\n\0\0\n", 30) + std::string(100'000, 'a') +
        "\nlast \\q \\");
  const History history(file_);
  EXPECT_EQ(history.problem(), "");
  EXPECT_EQ(history.inputs(),
            (std::vector<std::string>{"ok", "]0;evil x", "bad\uFFFD\uFFFD", "last q \\"}));
}

TEST_F(HistoryTest, ABackslashShieldsNoControl) {
  write("a\\\x1b[31mb\\\ac\n");
  EXPECT_EQ(History(file_).inputs(), std::vector<std::string>{"a[31mbc"});
}

TEST_F(HistoryTest, AnUnusableFileIsReportedAndHistoryStaysInMemory) {
  std::filesystem::create_directories(file_);
  History history(file_);
  EXPECT_NE(history.problem().find("inputs are not saved: "), std::string::npos);
  history.add("x");
  EXPECT_EQ(history.inputs(), std::vector<std::string>{"x"});
  std::filesystem::remove_all(file_);
  ASSERT_EQ(mkfifo(file_.c_str(), 0600), 0);
  EXPECT_NE(History(file_).problem(), "") << "a pipe must not be waited for";
  EXPECT_NE(History("/dev/null/x").problem(), "");
}

TEST_F(HistoryTest, ConcurrentProcessesAppendCompleteLines) {
  std::vector<std::thread> writers;
  for (int w = 0; w < 4; ++w) {
    writers.emplace_back([&, w] {
      History history(file_);
      for (int i = 0; i < 50; ++i) {
        history.add(std::string(200, static_cast<char>('a' + w)) + std::to_string(i));
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  const History all(file_);
  EXPECT_EQ(all.inputs().size(), 200u);
  for (const std::string& input : all.inputs()) {
    EXPECT_EQ(input.substr(0, 200), std::string(200, input[0]));
  }
}

TEST_F(HistoryTest, AnOvergrownFileIsCutToItsNewestInputs) {
  std::string bytes;
  for (int i = 0; i < 12'000; ++i) bytes += "input " + std::to_string(i) + "\n";
  write(bytes);
  EXPECT_EQ(History(file_).inputs().size(), 5000u);
  const History again(file_);
  EXPECT_EQ(again.inputs().size(), 5000u);
  EXPECT_EQ(again.inputs().back(), "input 11999");
}

TEST(HistoryFile, FollowsXdgThenHome) {
  const ScopedVariable home("HOME", "/home/u");
  {
    const ScopedVariable state("XDG_STATE_HOME", "/s");
    EXPECT_EQ(history_file(), "/s/xrun/history");
  }
  const ScopedVariable state("XDG_STATE_HOME", "relative");
  EXPECT_EQ(history_file(), "/home/u/.local/state/xrun/history");
}

}  // namespace
}  // namespace xrun::history_test

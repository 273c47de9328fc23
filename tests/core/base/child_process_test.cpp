// A child's output, exit status and interruption reach the caller.

#include "core/base/child_process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <string>
#include <thread>
#include <type_traits>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/interrupt.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace xrun::child_process_test {
namespace {

TEST(Interrupted, IsNotAnErrorAfterWhichCodeContinues) {
  EXPECT_FALSE((std::is_base_of_v<Error, Interrupted>));
}

class RunChild : public testing::Test {
 protected:
  void TearDown() override { clear_interrupt(); }
  const ScratchFolder scratch_;
  const std::filesystem::path output_ = scratch_ / "output";
};

TEST_F(RunChild, BothOutputsGoToTheFile) {
  const ChildResult result = run_child({"sh", "-c", "echo one; echo two >&2; exit 3"}, output_);
  EXPECT_EQ(result.status, 3);
  EXPECT_EQ(read_file(output_), "one\ntwo\n");
  EXPECT_EQ(result.last_lines, "one\ntwo");
}

TEST_F(RunChild, LastLinesAreTheWholeLinesAtTheEnd) {
  const ChildResult result = run_child({"sh", "-c", "seq 1 5000"}, output_);
  EXPECT_EQ(result.status, 0);
  EXPECT_LE(result.last_lines.size(), 2000u);
  EXPECT_EQ(result.last_lines.substr(result.last_lines.size() - 10), "\n4999\n5000");
  EXPECT_EQ(result.last_lines.substr(0, 2), "46");
}

TEST_F(RunChild, AMissingProgramIsStatus127) {
  const ChildResult result = run_child({"xrun-no-such-program"}, output_);
  EXPECT_EQ(result.status, 127);
  EXPECT_NE(result.last_lines.find("xrun-no-such-program: No such file"), std::string::npos);
}

TEST_F(RunChild, DeathBySignalIsStatus128PlusItsNumber) {
  EXPECT_EQ(run_child({"sh", "-c", "kill -9 $$"}, output_).status, 128 + SIGKILL);
}

TEST_F(RunChild, AnInterruptEndsTheChild) {
  std::thread later([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    request_interrupt(SIGINT);
  });
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(signal_of([&] { run_child({"sleep", "60"}, output_); }), SIGINT);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  later.join();
}

TEST_F(RunChild, IsKilledAtTheCallersRequest) {
  const ChildResult result = run_child(
      {"sh", "-c", "trap '' TERM; echo begun; while :; do sleep 1; done"}, output_,
      [&] { return std::filesystem::exists(output_) && std::filesystem::file_size(output_) > 0; });
  EXPECT_EQ(result.status, 128 + SIGKILL);
  EXPECT_EQ(result.last_lines, "begun");
  EXPECT_EQ(run_child({"true"}, output_, [] { return false; }).status, 0);
}

}  // namespace
}  // namespace xrun::child_process_test

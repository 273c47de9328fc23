#include "core/dist/work_wait.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/error_of.h"

namespace xrun {
namespace work_wait_test {

// Like c10d's Gloo work: wait throws its timeout, or the error of the call.
struct ScriptedWork {
  bool in_time = false;    // wait returns
  bool completed = false;  // when isCompleted is asked
  std::exception_ptr error = {};

  bool wait(std::chrono::milliseconds) {
    if (!in_time) throw std::runtime_error("Operation timed out!");
    if (error) std::rethrow_exception(error);
    return true;
  }
  bool isCompleted() const { return completed; }
  std::exception_ptr exception() const { return error; }
};

bool waits_to_the_end(ScriptedWork work) { return wait_once(work, std::chrono::milliseconds(1)); }

TEST(WorkWait, IsFalseWhileTheWorkIsRunning) {
  EXPECT_TRUE(waits_to_the_end({.in_time = true, .completed = true}));
  EXPECT_FALSE(waits_to_the_end({}));
}

TEST(WorkWait, WorkThatEndsJustAfterTheTimeoutHasNotFailed) {
  EXPECT_TRUE(waits_to_the_end({.completed = true}));
}

TEST(WorkWait, ThrowsTheErrorOfTheWork) {
  const std::exception_ptr error = std::make_exception_ptr(std::runtime_error("Connection reset"));
  for (const bool in_time : {false, true}) {
    EXPECT_EQ(message_of<std::runtime_error>([&] {
                waits_to_the_end({.in_time = in_time, .completed = true, .error = error});
              }),
              "Connection reset");
  }
}

}  // namespace work_wait_test
}  // namespace xrun

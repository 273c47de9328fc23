// A signal stops any Lua code, but waits while a step must end first.

#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>
#include <vector>

#include "lua/state/interruption.h"
#include "tests/error_of.h"
#include "tests/lua/state/lua_fixture.h"

namespace xrun::interrupt_test {
namespace {

using Clock = std::chrono::steady_clock;

std::atomic<int64_t> raised_at{0};

int64_t now_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(Clock::now().time_since_epoch())
      .count();
}

void handler(int signal_number) { LuaState::interrupt_from_signal(signal_number); }

}  // namespace

class Interruption : public LuaTest {
 protected:
  Interruption() {
    LuaState::set_interruptible(&state_);
    std::signal(SIGINT, handler);
  }
  ~Interruption() override {
    LuaState::clear_interrupt();
    LuaState::set_interruptible(nullptr);
    std::signal(SIGINT, SIG_DFL);
  }

  // Runs code, sends SIGINT to this thread after 50 ms; returns the microseconds until it stopped.
  int64_t stop(const std::string& code) {
    const pthread_t self = pthread_self();
    std::thread sender([self] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      raised_at = now_us();
      pthread_kill(self, SIGINT);
    });
    int64_t stopped = -1;
    try {
      run(code);
    } catch (const Interrupted& interrupted) {
      EXPECT_EQ(interrupted.signal_number(), SIGINT);
      stopped = now_us() - raised_at;
    } catch (const std::exception& other) {
      ADD_FAILURE() << other.what();
    }
    sender.join();
    return stopped;
  }
};

TEST_F(Interruption, StopsAnEndlessLoopWithin100Milliseconds) {
  const int64_t us = stop("while true do end");
  EXPECT_GE(us, 0);
  EXPECT_LE(us, 100000);
}

TEST_F(Interruption, NamesTheLineThatSpinsNotItsCallers) {
  EXPECT_GE(stop("local function f()\n"
                 "  while true do end\n"
                 "end\n"
                 "xrun.no_grad(f)"),
            0);
  EXPECT_EQ(interrupted_at(state_), "test.lua:3");
  LuaState::clear_interrupt();
  EXPECT_GE(stop("while true do end"), 0);
  EXPECT_EQ(interrupted_at(state_), "test.lua:2");
}

TEST_F(Interruption, CannotBeSwallowedByPcall) {
  EXPECT_GE(stop("while true do pcall(function() while true do end end) end"), 0);
  LuaState::clear_interrupt();
  EXPECT_GE(stop("while true do pcall(xrun.no_grad, function() while true do end end) end"), 0);
}

TEST_F(Interruption, CannotBeDelayedByAnErrorHandler) {
  EXPECT_GE(stop("xpcall(function() while true do end end, function() while true do end end)"), 0);
  LuaState::clear_interrupt();
  EXPECT_GE(stop("xpcall(error, function() while true do end end)"), 0);
  LuaState::clear_interrupt();
  EXPECT_EQ(
      run("return xpcall(function(a) error(a, 0) end, function(m) return m .. '!' end, 'no')"),
      "false, no!");
  EXPECT_EQ(run("local f = coroutine.wrap(function()\n"
                "  return xpcall(function() return coroutine.yield(1) end, print) end)\n"
                "return f(), f(2)"),
            "1, true, 2");
}

TEST_F(Interruption, StopsACoroutineAndALoopOfBindings) {
  EXPECT_GE(stop("local f = coroutine.wrap(function() while true do end end); f()"), 0);
  LuaState::clear_interrupt();
  EXPECT_GE(stop("local x = xrun.ones(4); while true do x = x + 1 end"), 0);
}

TEST_F(Interruption, WaitsWhileABodyMustEnd) {
  bool may = false;
  state_.may_interrupt = [&] { return may; };
  EXPECT_EQ(run("return 1"), "1");
  LuaState::interrupt_from_signal(SIGTERM);
  EXPECT_EQ(run("local n = 0; for i = 1, 1e5 do n = n + 1 end; return n, xrun.ones(1):item()"),
            "100000, 1");
  may = true;
  EXPECT_EQ(signal_of([&] { run("for i = 1, 1e5 do end"); }), SIGTERM);
  EXPECT_EQ(LuaState::interrupt_pending(), SIGTERM);
}

TEST_F(Interruption, ADeadlineStopsWhatAPcallOrAHandlerWouldHoldUp) {
  for (const char* code :
       {"while true do end", "while true do pcall(function() while true do end end) end",
        "xpcall(function() while true do end end, function() while true do end end)",
        "coroutine.wrap(function() while true do end end)()"}) {
    const LuaDeadline deadline(state_, 0.05);
    error_has(code, "ran longer than 0.05 s");
  }
  EXPECT_EQ(run("local n = 0; for i = 1, 1e6 do n = n + 1 end; return n"), "1000000");
}

TEST_F(Interruption, ADeadlineOfOwnTimeLeavesOutLongCallsOfTheEngine) {
  {
    const LuaDeadline deadline(state_, 0.05, LuaDeadline::Clock::kOwn);
    lua_pushcfunction(state_.get(), [](lua_State*) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      return 0;
    });
    lua_setglobal(state_.get(), "nap");
    EXPECT_EQ(run("nap() local n = 0; for i = 1, 1e4 do n = n + 1 end; return n"), "10000");
    EXPECT_TRUE(error_has("local x = xrun.ones(2)\nwhile true do x = x + 1 end",
                          "test.lua:3: the recipe's own code ran longer than 0.05 s"));
  }
  EXPECT_EQ(run("return 1"), "1");
}

// Each call is far below the limit, since a busy machine makes it take several times as long.
TEST_F(Interruption, OwnTimeLeavesOutFunctionsThatHaveReturned) {
  const LuaDeadline deadline(state_, 0.3, LuaDeadline::Clock::kOwn);
  run("local clock = os.clock\n"
      "function busy() local from = clock(); while clock() < from + 0.02 do end end");
  for (int i = 0; i < 20; ++i) {
    lua_getglobal(state_.get(), "busy");
    EXPECT_NO_THROW(protected_call(state_.get(), 0, 0));
  }
  EXPECT_TRUE(error_has("for i = 1, 20 do busy() end", "ran longer than 0.3 s"));
}

TEST_F(Interruption, ADeadlineThatTellsDoesSoOnceAndStopsNothing) {
  std::vector<std::string> told;
  const LuaDeadline outer(state_, 0.2);
  const LuaDeadline slow(state_, 0.02, LuaDeadline::Clock::kWall,
                         [&](const std::string& line) { told.push_back(line); });
  EXPECT_TRUE(error_has("\nwhile true do end", "ran longer than 0.2 s"));
  EXPECT_EQ(told, std::vector<std::string>{"test.lua:3"});
}

TEST_F(Interruption, ASignalStopsCodeUnderADeadline) {
  {
    const LuaDeadline deadline(state_, 60);
    EXPECT_GE(stop("while true do end"), 0);
  }
  EXPECT_EQ(signal_of([&] { run("for i = 1, 1e5 do end"); }), SIGINT);  // still pending
}

TEST_F(Interruption, LeavesTheStateUsable) {
  LuaState::interrupt_from_signal(SIGINT);
  EXPECT_EQ(signal_of([&] { run("for i = 1, 1e5 do end"); }), SIGINT);
  LuaState::clear_interrupt();
  EXPECT_EQ(run("return xrun.ones(1):item()"), "1");
}

}  // namespace xrun::interrupt_test

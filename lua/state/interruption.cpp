// A signal arms a count hook, which raises an error at the next Lua instruction; bindings call
// check_interrupt. The hook stays armed, so that a pcall cannot swallow the interruption.

#include "lua/state/interruption.h"

#include <fmt/core.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>

#include "core/base/interrupt.h"
#include "core/base/process_usage.h"
#include "lua/state/class.h"
#include "lua/state/lua_state.h"

namespace xrun {
namespace {

// Set by signal handlers, so they are lock-free atomics without a mutex.
std::atomic<int> pending_signal{0};
std::atomic<SteadyClock::rep> pending_since{0};
std::atomic<lua_State*> interruptible{nullptr};

// The line at which the last signal first stopped Lua code, and the time of that signal. The error
// is raised again in each caller that C++ separates from the line, such as the loop around an
// objective, and after each pcall. It is located once: the time for that grows with the depth of
// the stack, and a recursion through pcall has tens of thousands of them.
struct InterruptedLine {
  std::string text;
  SteadyClock::rep since = 0;
  std::shared_ptr<const ErrorReport> report = nullptr;
};

// Instructions between two calls of the hook: at once, and rarely while the interruption must wait.
constexpr int kEveryInstruction = 1;
constexpr int kWhileWaiting = 1000;
// Between two looks at the clock under a deadline: about 10 us of Lua code.
constexpr int kDeadlineEvery = 1000;
// More than this between two looks is a long call of the engine, not the recipe's own time.
constexpr std::chrono::milliseconds kMostOwn{10};

}  // namespace

struct DeadlineState {
  DeadlineState* around = nullptr;
  SteadyClock::duration limit = {}, used = {};
  SteadyClock::time_point looked = {};
  double seconds = 0;
  LuaDeadline::Clock clock = LuaDeadline::Clock::kWall;
  LuaDeadline::Tell tell = nullptr;
  std::shared_ptr<const ErrorReport> report = nullptr;  // once it has passed
};

namespace {

struct Deadlines {
  DeadlineState* innermost = nullptr;
};

std::atomic<TellLine> tell_line{nullptr};
std::atomic<pthread_t> asked_thread{};
std::atomic<bool> line_asked{false};  // while deadlines use the hook

void tell_asked_line(lua_State* L, lua_Debug* frame) {
  const TellLine tell = tell_line.load();
  if (tell == nullptr || lua_getinfo(L, "Sl", frame) == 0) return;
  // A chunk of a file is named "@file".
  const char* const file = frame->source[0] == '@' ? frame->source + 1 : frame->short_src;
  tell(fmt::format("{}:{}", file, frame->currentline).c_str());
}

void line_hook(lua_State* L, lua_Debug* frame) {
  lua_sethook(L, nullptr, 0, 0);
  tell_asked_line(L, frame);
}

void deadline_hook(lua_State* L, lua_Debug* frame);

// Setting a hook is what lua.c does in its own signal handler.
void on_line_question(int) {
  lua_State* const L = interruptible.load();
  if (L == nullptr) return;
  if (lua_gethook(L) == nullptr) lua_sethook(L, line_hook, LUA_MASKCOUNT, 1);
  if (lua_gethook(L) == deadline_hook) line_asked.store(true);
}

}  // namespace

// SIGURG, since systems and libraries ignore it, and so does a process without this handler.
void install_line_question(TellLine tell) {
  tell_line.store(tell);
  asked_thread.store(pthread_self());
  struct sigaction action {};
  action.sa_handler = on_line_question;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  sigaction(SIGURG, &action, nullptr);
}

void ask_running_line() {
  if (tell_line.load() != nullptr) pthread_kill(asked_thread.load(), SIGURG);
}

void push_interruption(lua_State* L) {
  auto& line = LuaState::of(L).service<InterruptedLine>();
  const SteadyClock::rep since = pending_since.load();
  if (line.report != nullptr && since != 0 && line.since == since) {
    return push_error(L, line.report);
  }
  auto report = std::make_shared<ErrorReport>();
  report->signal_number = pending_signal.load();
  // Ranks stop by the flag alone, which they agree on.
  if (report->signal_number == 0) report->signal_number = interrupt_signal();
  report->message = "interrupted";
  locate(L, 0, 0, *report);
  // The innermost line comes first; the callers that raise it again must not replace it.
  if (line.text.empty() || line.since != since) line = {report->position(), since};
  line.report = report;
  push_error(L, std::move(report));
}

namespace {

void arm_hook(lua_State* L, int count);

void interrupt_hook(lua_State* L, lua_Debug*) {
  // The signal was answered meanwhile: the hook removes itself.
  if (pending_signal.load() == 0) {
    lua_sethook(L, nullptr, 0, 0);
    return;
  }
  const LuaState& state = LuaState::of(L);
  // A body with an update in it is given time to end; asking at every instruction would slow it
  // down.
  if (state.may_interrupt && !state.may_interrupt()) return arm_hook(L, kWhileWaiting);
  const Suspension suspends = suspension(L);
  if (suspends == Suspension::kSoon) return arm_hook(L, kWhileWaiting);
  if (suspends == Suspension::kNow) {
    state.suspending(L, pending_signal.load());
    // A prompt opens at this line. A count hook may yield.
    lua_yield(L, 0);
    return;
  }
  arm_hook(L, kEveryInstruction);  // stays armed: a pcall in the recipe cannot swallow it for good
  push_interruption(L);
  lua_error(L);
}

void arm_hook(lua_State* L, int count) {
  // Counts only: a call hook would also fire on the message handler of the error it raised.
  lua_sethook(L, interrupt_hook, LUA_MASKCOUNT, count);
}

// Returns true once the deadline has passed.
bool look_at_clock(DeadlineState& deadline) {
  const auto now = SteadyClock::now();
  const bool own = deadline.clock == LuaDeadline::Clock::kOwn;
  const SteadyClock::duration passed = now - deadline.looked;
  deadline.used += own ? std::min<SteadyClock::duration>(passed, kMostOwn) : passed;
  deadline.looked = now;
  return deadline.used >= deadline.limit;
}

std::shared_ptr<const ErrorReport> deadline_report(lua_State* L, const DeadlineState& deadline) {
  auto report = std::make_shared<ErrorReport>();
  report->message =
      deadline.clock == LuaDeadline::Clock::kWall
          ? fmt::format("ran longer than {} s", deadline.seconds)
          : fmt::format("the recipe's own code ran longer than {} s; does a loop never end?",
                        deadline.seconds);
  locate(L, 0, 0, *report);
  return report;
}

// Returns the passed deadline that ends the code, or null.
DeadlineState* ending_deadline(lua_State* L) {
  for (DeadlineState* at = LuaState::of(L).service<Deadlines>().innermost; at != nullptr;
       at = at->around) {
    if (at->report != nullptr) return at;
    if (!look_at_clock(*at)) continue;
    if (at->tell == nullptr) {
      at->report = deadline_report(L, *at);
      return at;
    }
    at->limit = SteadyClock::duration::max();  // it tells once
    ErrorReport report;
    locate(L, 0, 0, report);
    at->tell(report.position());
  }
  return nullptr;
}

void deadline_hook(lua_State* L, lua_Debug* frame) {
  if (pending_signal.load() != 0) return arm_hook(L, kEveryInstruction);
  if (line_asked.exchange(false)) tell_asked_line(L, frame);
  const DeadlineState* const passed = ending_deadline(L);
  if (passed == nullptr) return;
  // Again at every instruction: a pcall around the loop must not outlive the deadline.
  lua_sethook(L, deadline_hook, LUA_MASKCOUNT, kEveryInstruction);
  push_error(L, passed->report);
  lua_error(L);
}

bool has_passed_deadline(lua_State* L) {
  for (const DeadlineState* at = LuaState::of(L).service<Deadlines>().innermost; at != nullptr;
       at = at->around) {
    if (at->report != nullptr) return true;
  }
  return false;
}

// xpcall's handler runs while the hook that raised the error is still active, so no other hook can
// stop it: an interruption bypasses the recipe's handler.
int handle_error(lua_State* L) {
  const bool ours = class_of(L, 1) == &class_info<const ErrorReport>;
  if (ours && object_at<const ErrorReport>(L, 1)->signal_number != 0) return 1;
  if (has_passed_deadline(L)) return 1;
  lua_settop(L, 1);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, 1, 1);
  return 1;
}

int wrap_handler(lua_State* L) {
  lua_settop(L, 1);
  // Anything else is left for xpcall's own error.
  if (lua_isfunction(L, 1)) lua_pushcclosure(L, handle_error, 1);
  return 1;
}

}  // namespace

void guard_xpcall(lua_State* L) {
  // In Lua, so that a coroutine may yield through it.
  constexpr std::string_view kText =
      "local xpcall, wrap = ... return function(f, h, ...) return xpcall(f, wrap(h), ...) end";
  push_builtin_text(L, kText, "=xpcall");
  lua_getglobal(L, "xpcall");
  lua_pushcfunction(L, wrap_handler);
  lua_call(L, 2, 1);
  lua_setglobal(L, "xpcall");
}

std::string interrupted_at(lua_State* L) { return LuaState::of(L).service<InterruptedLine>().text; }

LuaDeadline::LuaDeadline(lua_State* L, double seconds, Clock clock, Tell tell)
    : state_(L), before_(lua_gethook(L)), mask_(lua_gethookmask(L)), count_(lua_gethookcount(L)) {
  auto& deadlines = LuaState::of(L).service<Deadlines>();
  const auto limit =
      std::chrono::duration_cast<SteadyClock::duration>(std::chrono::duration<double>(seconds));
  deadline_ = std::make_unique<DeadlineState>(DeadlineState{.around = deadlines.innermost,
                                                            .limit = limit,
                                                            .looked = SteadyClock::now(),
                                                            .seconds = seconds,
                                                            .clock = clock,
                                                            .tell = std::move(tell)});
  deadlines.innermost = deadline_.get();
  lua_sethook(L, deadline_hook, LUA_MASKCOUNT, kDeadlineEvery);
}

OwnCall::OwnCall(lua_State* L) : own_(LuaState::of(L).service<Deadlines>().innermost) {
  while (own_ != nullptr && own_->clock != LuaDeadline::Clock::kOwn) own_ = own_->around;
  if (own_ != nullptr) used_ = own_->used;
}

OwnCall::~OwnCall() {
  if (own_ != nullptr) own_->used = used_;
}

LuaDeadline::~LuaDeadline() {
  LuaState::of(state_).service<Deadlines>().innermost = deadline_->around;
  // A signal may have replaced the hook; its own stays.
  if (lua_gethook(state_) == deadline_hook) lua_sethook(state_, before_, mask_, count_);
  if (pending_signal.load() != 0 && interruptible.load() == LuaState::of(state_).get()) {
    arm_hook(state_, kEveryInstruction);
  }
}

// The state is closing; a signal must not set a hook in it.
void forget_interruptible(lua_State* main) noexcept {
  if (interruptible.load() == main) interruptible.store(nullptr);
}

void LuaState::set_interruptible(LuaState* state) {
  interruptible.store(state == nullptr ? nullptr : state->main_);
}

void LuaState::interrupt_from_signal(int signal_number) noexcept {
  // The first signal starts the clock; a second one must not extend it.
  if (pending_signal.exchange(signal_number) == 0) {
    pending_since.store(SteadyClock::now().time_since_epoch().count());
  }
  // Setting a hook is what lua.c does in its own signal handler.
  if (lua_State* L = interruptible.load()) arm_hook(L, kEveryInstruction);
}

int LuaState::interrupt_pending() noexcept { return pending_signal.load(); }

double LuaState::interrupt_age_s() noexcept {
  const SteadyClock::duration since(pending_since.load());
  return std::chrono::duration<double>(SteadyClock::now().time_since_epoch() - since).count();
}

void LuaState::clear_interrupt() noexcept {
  pending_signal.store(0);
  if (lua_State* L = interruptible.load()) lua_sethook(L, nullptr, 0, 0);
}

void LuaState::clear_interrupt(int signal_number) noexcept {
  // Only if no other signal has come since.
  if (!pending_signal.compare_exchange_strong(signal_number, 0)) return;
  lua_State* L = interruptible.load();
  if (L == nullptr) return;
  lua_sethook(L, nullptr, 0, 0);
  if (pending_signal.load() != 0)
    arm_hook(L, kEveryInstruction);  // another signal arrived between the two
}

Suspension suspension(lua_State* L) {
  const LuaState& state = LuaState::of(L);
  if (!state.may_suspend) return Suspension::kNone;
  return state.may_suspend(L, pending_signal.load());
}

void check_interrupt(lua_State* L) {
  const int signal_number = pending_signal.load();
  if (signal_number == 0) return;
  const LuaState& state = LuaState::of(L);
  // Other states (workers, completion) end with their caller.
  if (interruptible.load() != state.get()) return;
  if (state.may_interrupt && !state.may_interrupt()) return;
  throw Interrupted(signal_number);
}

}  // namespace xrun

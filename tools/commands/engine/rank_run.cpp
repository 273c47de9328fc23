// The watchdog's verdict ends a process without destructors, since its main thread may hang.

#include "tools/commands/engine/rank_run.h"

#include <c10/util/Exception.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <new>
#include <string_view>

#include "core/base/error.h"
#include "core/base/folder.h"
#include "core/base/temporary_dir.h"
#include "core/console/terminal/shown_text.h"
#include "core/dist/join_ranks.h"
#include "lua/bind/session.h"
#include "lua/state/interruption.h"

namespace xrun {

namespace {

constexpr const char* kCheck = "XRUN_DIST_CHECK";
constexpr const char* kTimes = "XRUN_DIST_TIMES";

void print_error(const std::string& text) {
  std::fprintf(stderr, "\nxrun: error: %s\n", shown_text(text).c_str());
}

[[noreturn]] void end_process(const RankVerdict& verdict, bool reports) {
  if (reports) print_error(verdict.text);
  std::fflush(stderr);
  remove_temporary_dirs();
  ::_exit(verdict.status);
}

void print_notice(const std::string& text) {
  std::fprintf(stderr, "\n%s\n", shown_text(text).c_str());
}

void note_line(const char* line) { flight_record().set_line(line); }

bool is_on(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr && std::string_view(value) == "1";
}

CollectiveTimes& own_times() {
  static CollectiveTimes times;
  return times;
}

// Reports, after a successful run, what was compared and timed.
void report_collectives(Ranks& ranks) {
  std::vector<std::string> begun;
  // The clocks of several machines differ.
  if (is_on(kTimes) && rank_environment()->one_machine()) {
    begun = ranks.gather("times of collectives", own_times().begin_times());
  }
  if (ranks.rank() != 0) return;
  if (is_on(kCheck)) {
    // The first one is the connection itself.
    std::fprintf(stderr, "%lld collectives had the same arguments on all ranks\n",
                 static_cast<long long>(flight_record().read().begun - 1));
  }
  if (is_on(kTimes)) std::fputs(own_times().table(begun).c_str(), stderr);
}

// Reports to the other ranks if os.exit of the recipe ends this process while this object lives;
// os.exit does not return, and runs no destructor.
class ExitReport {
 public:
  explicit ExitReport(Ranks* ranks) {
    if (ranks == nullptr) return;
    running_ = ranks;
    process_ = ::getpid();
    ::on_exit(report, nullptr);
  }
  ~ExitReport() { running_ = nullptr; }
  ExitReport(const ExitReport&) = delete;
  ExitReport& operator=(const ExitReport&) = delete;

 private:
  // A child of this process reports nothing.
  static void report(int status, void* /*unused*/) {
    if (running_ == nullptr || process_ != ::getpid() || status == 0) return;
    const std::string text = fmt::format("the recipe ended its process with status {}", status);
    running_->fail(status, text);
    print_error(text);
  }

  static inline Ranks* running_ = nullptr;
  static inline pid_t process_ = 0;
};

}  // namespace

std::unique_ptr<Ranks> join_run() {
  const std::optional<RankEnvironment> env = rank_environment();
  if (!env) {
    // `xrun launch -n 1` reports the failure of one process as that of many.
    share_with_launcher(0);
    flight_record().join();
    return nullptr;
  }
  JoinOptions options;
  const Json binary = binary_identity();
  for (const auto& [name, value] : binary.as_object()) {
    options.program += fmt::format("{} {}\n", name, value.as_string());
  }
  options.check = is_on(kCheck);
  if (is_on(kTimes)) options.times = &own_times();
  options.hooks = {print_notice, end_process, ask_running_line};
  install_line_question(note_line);
  return join_ranks(*env, options);
}

void choose_gpu_of_rank() {
  const std::optional<RankEnvironment> env = rank_environment();
  if (!env) return;
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  // The driver itself counts only what the variable shows when it starts.
  std::error_code code;
  const auto gpus = static_cast<int64_t>(list_folder("/proc/driver/nvidia/gpus", code).size());
  const std::string gpu = gpu_of_rank(*env, visible == nullptr ? "" : visible, gpus);
  ::setenv("CUDA_VISIBLE_DEVICES", gpu.c_str(), /*overwrite=*/1);
}

int run_on_ranks(Ranks* ranks, const std::function<int()>& run) {
  const auto fail = [ranks](int status, const std::string& message) {
    if (ranks != nullptr) return ranks->fail(status, message);
    flight_record().set_failure(
        fmt::format("rank 0 of 1: {}: {}", step_text(flight_record().read()), message));
  };
  const ExitReport exit_report(ranks);
  try {
    const int status = run();
    if (ranks != nullptr && status == 0) report_collectives(*ranks);
    return status;
  } catch (const Interrupted&) {
    throw;
  } catch (const UsageError& error) {
    fail(2, error.what());
    throw;
  } catch (const c10::Error& error) {
    fail(1, error.what_without_backtrace());
    throw;
  } catch (const std::bad_alloc&) {
    fail(1, "out of memory");
    throw;
  } catch (const std::exception& error) {
    fail(1, error.what());
    throw;
  }
}

}  // namespace xrun

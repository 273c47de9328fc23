// c10d retries a refused connection once a second and prints warnings, so the port is tried with
// our own socket first. Keys of the store: "meet/size" (world size and rank of the first to come),
// "meet/claim/RANK" (processes that came as that rank), "meet/refused" (why none can meet),
// "meet/RANK" (that rank's program), "meet/count".

#include "core/dist/rendezvous.h"

#include <c10/util/Exception.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <future>
#include <memory>
#include <string_view>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <vector>

#include "core/base/error.h"
#include "core/base/interrupt.h"
#include "core/base/process_usage.h"
#include "core/base/strings.h"
#include "core/dist/watch/socket.h"

namespace xrun {

namespace {

constexpr double kJoinS = 300;       // containers of one job start minutes apart
constexpr double kOwnAddressS = 10;  // rank 0 reaches itself at once, or never
constexpr int kFirstPauseMs = 1;
constexpr int kLastPauseMs = 100;
constexpr double kReadS = 5;  // time for the others to read what differs; they look every 100 ms
constexpr size_t kNamedRanks = 8;

double join_timeout_s() { return seconds_variable("XRUN_DIST_JOIN_S").value_or(kJoinS); }

// torchrun's agent serves the store itself, and keeps it over restarts of the ranks.
bool agent_serves() {
  const char* const text = std::getenv("TORCHELASTIC_USE_AGENT_STORE");
  return text != nullptr && std::string_view(text) == "True";
}

// The agent's store outlives a restart: keys of the run before must not be read.
std::string key_prefix() {
  const char* const restarts = std::getenv("TORCHELASTIC_RESTART_COUNT");
  return fmt::format("xrun/{}", restarts == nullptr ? "0" : restarts);
}

// Returns the socket on which rank 0 serves the store.
int listening_socket(const RankEnvironment& env) {
  if (const char* const text = std::getenv("XRUN_MASTER_FD")) {
    const int fd = std::atoi(text);
    ::unsetenv("XRUN_MASTER_FD");  // not meant for programs that this process starts
    ::fcntl(fd, F_SETFD, FD_CLOEXEC);
    return fd;
  }
  return listen_on(env.port, env.one_machine()).release();
}

void wait_for_server(const RankEnvironment& env, const std::string& host) {
  if (env.rank == 0 && !agent_serves()) {
    try {
      connect_to(host, env.port, kOwnAddressS);
    } catch (const Error& error) {
      throw Error(
          fmt::format("rank 0 listens on port {}, but its own MASTER_ADDR does not lead "
                      "there: {}; set MASTER_ADDR to the host of rank 0",
                      env.port, error.what()));
    }
    return;
  }
  try {
    connect_to(host, env.port, join_timeout_s(), [](const std::string&) { check_interrupt(); });
  } catch (const Error& error) {
    throw Error(
        fmt::format("rank {} of {} cannot find rank 0: {}; check MASTER_ADDR and MASTER_PORT, "
                    "and that rank 0 has started",
                    env.rank, env.world_size, error.what()));
  }
}

std::vector<uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

std::string text_of(const std::vector<uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

// Refuses a process that came here through another run's address or a wrong RANK or WORLD_SIZE. The
// ranks of a run that has met never notice it.
void claim_rank(c10d::Store& store, const RankEnvironment& env) {
  const std::string own = fmt::format("WORLD_SIZE={} on rank {}", env.world_size, env.rank);
  const std::string first = text_of(store.compareSet("meet/size", {}, bytes_of(own)));
  if (first.substr(0, first.find(' ')) != own.substr(0, own.find(' '))) {
    const std::string text = fmt::format(
        "the ranks that meet at {}:{} differ in their number: {}, but {}; start every rank with "
        "the same WORLD_SIZE, and each job with a MASTER_PORT of its own",
        env.address, env.port, first, own);
    // For ranks that still wait for others to come.
    store.set("meet/refused", bytes_of(text));
    throw UsageError(text);
  }
  if (store.add(fmt::format("meet/claim/{}", env.rank), 1) == 1) return;
  throw UsageError(
      fmt::format("another process has joined as rank {} of {} at {}:{}; give each job a "
                  "MASTER_PORT of its own, and each of its processes its own RANK",
                  env.rank, env.world_size, env.address, env.port));
}

[[noreturn]] void throw_missing(c10d::Store& store, const RankEnvironment& env, double waited_s) {
  std::vector<std::string> missing;
  for (int64_t r = 0; r < env.world_size; ++r) {
    if (!store.check({fmt::format("meet/{}", r)})) missing.push_back(std::to_string(r));
  }
  throw Error(
      fmt::format("rank {} of {} waited {:.0f} s for {} {}, which did not come; see their "
                  "output, or set XRUN_DIST_JOIN_S to wait longer",
                  env.rank, env.world_size, waited_s, missing.size() == 1 ? "rank" : "ranks",
                  listed(missing, kNamedRanks)));
}

// Returns the first line of `text` that differs from the same line of `other`.
std::string first_difference(const std::string& text, const std::string& other) {
  const size_t same =
      std::mismatch(text.begin(), text.end(), other.begin(), other.end()).first - text.begin();
  const size_t newline = text.rfind('\n', same == 0 ? 0 : same - 1);
  const size_t begin = newline == std::string::npos ? 0 : newline + 1;
  return text.substr(begin, text.find('\n', begin) - begin);
}

// Every rank compares all programs, so that each throws by itself.
void compare_programs(c10d::Store& store, const RankEnvironment& env) {
  std::vector<std::string> keys;
  for (int64_t r = 0; r < env.world_size; ++r) keys.push_back(fmt::format("meet/{}", r));
  const std::vector<std::vector<uint8_t>> programs = store.multiGet(keys);
  const std::string first = text_of(programs[0]);
  for (int64_t r = 1; r < env.world_size; ++r) {
    const std::string program = text_of(programs[r]);
    if (program == first) continue;
    throw UsageError(
        fmt::format("ranks 0 and {} run different builds of xrun ({} and {}); start the same "
                    "one on every machine",
                    r, first_difference(first, program), first_difference(program, first)));
  }
}

using TCPStorePointer = c10::intrusive_ptr<c10d::TCPStore>;

// TCPStore waits without limit for the first answer, which another program at the port may never
// send. So it is made on a thread of its own, which is then left behind.
TCPStorePointer connect_store(const RankEnvironment& env, const std::string& host,
                              const c10d::TCPStoreOptions& options) {
  const auto made = std::make_shared<std::promise<TCPStorePointer>>();
  std::future<TCPStorePointer> answer = made->get_future();
  std::thread([made, host, options] {
    try {
      made->set_value(c10::make_intrusive<c10d::TCPStore>(host, options));
    } catch (...) {
      made->set_exception(std::current_exception());
    }
  }).detach();
  const SteadyClock::time_point begin = SteadyClock::now();
  std::string why = "no answer";
  while (answer.wait_for(std::chrono::milliseconds(kLastPauseMs)) != std::future_status::ready) {
    check_interrupt();
    if (seconds_since(begin) > join_timeout_s()) break;
  }
  try {
    if (answer.wait_for(std::chrono::seconds(0)) == std::future_status::ready) return answer.get();
  } catch (const c10::Error& error) {
    why = error.what_without_backtrace();
  }
  throw Error(
      fmt::format("rank {} of {}: what listens at {}:{} does not answer as rank 0 of a run ({}, "
                  "tried for {:.0f} s); if another program has that port, set MASTER_PORT to a "
                  "free one on every rank",
                  env.rank, env.world_size, host, env.port, why, seconds_since(begin)));
}

void await_all(c10d::Store& store, const RankEnvironment& env, const std::string& program) {
  const SteadyClock::time_point begin = SteadyClock::now();
  store.set(fmt::format("meet/{}", env.rank), bytes_of(program));
  store.add("meet/count", 1);
  for (int pause_ms = kFirstPauseMs; store.add("meet/count", 0) < env.world_size;
       pause_ms = std::min(2 * pause_ms, kLastPauseMs)) {
    check_interrupt();
    if (store.check({"meet/refused"})) throw UsageError(text_of(store.get("meet/refused")));
    const double waited_s = seconds_since(begin);
    if (waited_s > join_timeout_s()) throw_missing(store, env, waited_s);
    ::poll(nullptr, 0, pause_ms);
  }
}

}  // namespace

std::string own_address(const RankEnvironment& env) {
  if (env.one_machine()) return kLoopback;
  // Rank 0 reaches its own name over the loopback interface, which the others cannot.
  std::string own = address_towards(env.address);
  if (own.empty() || own == "::1" || own.starts_with("127.")) own = outer_address();
  return own.empty() ? env.address : own;
}

c10::intrusive_ptr<c10d::Store> open_store(const RankEnvironment& env) {
  const bool serves = env.rank == 0 && !agent_serves();
  // On one machine, rank 0 listens on the loopback interface alone.
  const std::string host = env.one_machine() && !agent_serves() ? kLoopback : env.address;
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(env.port);
  options.isServer = serves;
  options.waitWorkers = false;
  options.timeout = std::chrono::milliseconds(static_cast<int64_t>(1e3 * join_timeout_s()));
  if (serves) options.masterListenFd = listening_socket(env);
  if (!serves || !env.one_machine()) wait_for_server(env, host);
  return c10::make_intrusive<c10d::PrefixStore>(key_prefix(), connect_store(env, host, options));
}

void meet(c10d::Store& store, const RankEnvironment& env, const std::string& program) {
  std::exception_ptr difference;
  try {
    claim_rank(store, env);
    await_all(store, env, program);
    compare_programs(store, env);
  } catch (const UsageError&) {
    difference = std::current_exception();
  }
  store.add("meet/read", 1);
  if (!difference) return;
  // If rank 0 serves the store, it must stay until the others have read the difference there.
  const SteadyClock::time_point read = SteadyClock::now();
  while (env.rank == 0 && store.add("meet/read", 0) < env.world_size &&
         seconds_since(read) < kReadS) {
    ::poll(nullptr, 0, kFirstPauseMs);
  }
  std::rethrow_exception(difference);
}

}  // namespace xrun

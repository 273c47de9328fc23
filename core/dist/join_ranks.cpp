// Joining: connect to the store, start the watchdog, then create the process group.

#include "core/dist/join_ranks.h"

#include <fmt/format.h>

#include <cstdlib>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/dist/process_group.h"
#include "core/dist/rendezvous.h"
#include "core/dist/watch/socket.h"

namespace xrun {

namespace {

constexpr double kWatchS = 60;

// Listens for the watchdogs of the other ranks on a port that the system chooses, and tells them
// the port and the run's id.
WatchConnection listen_for_watchdogs(c10d::Store& store, const RankEnvironment& env) {
  std::random_device random;
  WatchConnection out;
  out.socket = listen_on(0, env.one_machine());
  out.run_id = uint64_t{random()} << 32 | random();
  store.set("watch/rank_0", fmt::format("{} {}", port_of(out.socket), out.run_id));
  return out;
}

WatchConnection watch_rank_0(c10d::Store& store, const RankEnvironment& env) {
  const std::vector<uint8_t> bytes = store.get("watch/rank_0");
  const std::string text(bytes.begin(), bytes.end());
  char* id = nullptr;
  const long port = std::strtol(text.c_str(), &id, 10);
  WatchConnection out;
  out.run_id = std::strtoull(id, nullptr, 10);
  out.socket =
      connect_to(env.one_machine() ? kLoopback : env.address, static_cast<int>(port), kWatchS);
  return out;
}

}  // namespace

std::unique_ptr<Ranks> join_ranks(const RankEnvironment& env, const JoinOptions& options) {
  if (options.record == &flight_record()) share_with_launcher(env.local_rank);
  auto store = open_store(env);
  WatchConnection watched;
  if (env.rank == 0) watched = listen_for_watchdogs(*store, env);
  meet(*store, env, options.program);
  options.record->join();
  if (env.rank != 0) watched = watch_rank_0(*store, env);
  return std::make_unique<ProcessGroup>(env, options, std::move(store), std::move(watched));
}

}  // namespace xrun

// Joining: connect to the store, start the watchdog, then create the process group.

#include "core/dist/join_ranks.h"

#include <unistd.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "core/dist/process_group.h"
#include "core/dist/rendezvous.h"
#include "core/dist/watch/socket.h"

namespace xrun {

namespace {

constexpr double kWatchS = 60;

// On rank 0 the watchdog's socket listens, on the others it is connected to it.
Socket watch_rank_0(c10d::Store& store, const RankEnvironment& env) {
  const std::vector<uint8_t> text = store.get("watch/port");
  return connect_to(env.one_machine() ? kLoopback : env.address,
                    std::atoi(std::string(text.begin(), text.end()).c_str()), kWatchS);
}

// Moves the record to the memory that `xrun launch` reads, if it started this process.
void share_record(FlightRecord& record, const RankEnvironment& env) {
  const char* const text = std::getenv("XRUN_RANK_RECORDS");
  if (text == nullptr || &record != &flight_record()) return;
  const int fd = std::atoi(text);
  record.share(fd, env.local_rank);
  ::unsetenv("XRUN_RANK_RECORDS");  // neither is for the programs that this process starts
  ::close(fd);
}

}  // namespace

std::unique_ptr<Ranks> join_ranks(const RankEnvironment& env, const JoinOptions& options) {
  share_record(*options.record, env);
  auto store = open_store(env);
  Socket watched;
  if (env.rank == 0) {
    // The system chooses the port; the store tells it to the others.
    watched = listen_on(0, env.one_machine());
    store->set("watch/port", std::to_string(port_of(watched)));
  }
  meet(*store, env, options.program);
  options.record->join();
  if (env.rank != 0) watched = watch_rank_0(*store, env);
  return std::make_unique<ProcessGroup>(env, options, std::move(store), std::move(watched));
}

}  // namespace xrun

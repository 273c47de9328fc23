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
Socket watch_rank_0(c10d::Store& store, const World& world) {
  const std::vector<uint8_t> text = store.get("watch/port");
  return connect_to(world.one_machine() ? kLoopback : world.address,
                    std::atoi(std::string(text.begin(), text.end()).c_str()), kWatchS);
}

// Moves the record to the memory that `xrun launch` reads, if it started this process.
void share_record(FlightRecord& record, const World& world) {
  const char* const text = std::getenv("XRUN_RANK_RECORDS");
  if (text == nullptr || &record != &flight_record()) return;
  const int fd = std::atoi(text);
  record.share(fd, world.local_rank);
  ::unsetenv("XRUN_RANK_RECORDS");  // neither is for the programs that this process starts
  ::close(fd);
}

}  // namespace

std::unique_ptr<Ranks> join_ranks(const World& world, const JoinOptions& options) {
  share_record(*options.record, world);
  auto store = open_store(world);
  Socket watched;
  if (world.rank == 0) {
    // The system chooses the port; the store tells it to the others.
    watched = listen_on(0, world.one_machine());
    store->set("watch/port", std::to_string(port_of(watched)));
  }
  meet(*store, world, options.program);
  options.record->join();
  if (world.rank != 0) watched = watch_rank_0(*store, world);
  return std::make_unique<ProcessGroup>(world, options, std::move(store), std::move(watched));
}

}  // namespace xrun

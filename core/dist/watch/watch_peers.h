#pragma once
// The connections of a rank's watchdog: on rank 0 one to each other rank, elsewhere one to rank 0.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/dist/watch/frame_stream.h"
#include "core/dist/watch/rank_environment.h"
#include "core/dist/watch/socket.h"

namespace xrun {

// Not thread-safe.
class WatchPeers {
 public:
  // `socket` listens on rank 0; on the others it is connected to rank 0.
  WatchPeers(const RankEnvironment& env, Socket socket, uint64_t run_id);

  // Waits until `wake_fd` is readable or a connection has something to do, at most `timeout_ms`.
  void await(int wake_fd, int timeout_ms) const;

  // Accepts new connections, calls `take` with each frame that has come and `closed` with each rank
  // whose connection has ended. On rank 0 a connection belongs to a rank from its hello on, which
  // `take` gets as well; a rank connects once, and frames of other processes are ignored.
  void receive(const std::function<void(int64_t rank, const Frame& frame)>& take,
               const std::function<void(int64_t rank)>& closed);

  // Sends to all peers; what the system does not take now goes out with a later send or receive.
  void send(FrameKind kind, std::string_view body);

  // Ends the connections: waits at most 1 s until the peers have read all and closed.
  void say_goodbye();

 private:
  struct Peer {
    FrameStream stream;
    int64_t rank = -1;  // -1 before its hello
  };

  void accept();
  // Returns false if the hello is not of this run.
  bool join(Peer& peer, const std::string& hello_bytes);

  const uint64_t run_id_;
  Socket listener_;  // on rank 0
  std::vector<Peer> peers_;
  std::vector<bool> joined_;  // on rank 0, by rank: it has sent its hello
};

}  // namespace xrun

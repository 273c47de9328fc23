// A socket that is closed with unread bytes loses the last bytes that it sent, so both ends first
// read everything (say_goodbye).

#include "core/dist/watch/watch_peers.h"

#include <poll.h>
#include <sys/socket.h>

#include <utility>

#include "core/base/process_usage.h"
#include "core/dist/watch/watch_message.h"

namespace xrun {

WatchPeers::WatchPeers(const RankEnvironment& env, Socket socket, uint64_t run_id)
    : run_id_(run_id), joined_(env.world_size) {
  if (env.rank == 0) {
    listener_ = std::move(socket);
  } else {
    peers_.push_back({FrameStream(std::move(socket)), 0});
  }
}

void WatchPeers::await(int wake_fd, int timeout_ms) const {
  std::vector<pollfd> waits = {{wake_fd, POLLIN, 0}};
  if (listener_.open()) waits.push_back({listener_.fd(), POLLIN, 0});
  for (const Peer& peer : peers_) {
    const short events = peer.stream.wants_to_write() ? POLLIN | POLLOUT : POLLIN;
    waits.push_back({peer.stream.fd(), events, 0});
  }
  ::poll(waits.data(), waits.size(), timeout_ms);
}

void WatchPeers::receive(const std::function<void(int64_t rank, const Frame& frame)>& take,
                         const std::function<void(int64_t rank)>& closed) {
  if (listener_.open()) accept();
  for (Peer& peer : peers_) {
    std::vector<Frame> frames;
    const bool open = peer.stream.receive(frames);
    peer.stream.flush();
    for (const Frame& frame : frames) {
      const bool known = peer.rank >= 0;
      const bool valid = frame.kind == FrameKind::kHello ? !known && join(peer, frame.body) : known;
      if (valid) take(peer.rank, frame);
    }
    if (open) continue;
    if (peer.rank >= 0) closed(peer.rank);
    peer.stream = FrameStream(Socket());
  }
  std::erase_if(peers_, [](const Peer& peer) { return peer.stream.fd() < 0; });
}

void WatchPeers::accept() {
  while (true) {
    pollfd ready = {listener_.fd(), POLLIN, 0};
    if (::poll(&ready, 1, 0) <= 0) return;
    Socket socket(::accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket.open()) return;
    // The hello will name the rank; frames before it are ignored.
    peers_.push_back({FrameStream(std::move(socket)), -1});
  }
}

bool WatchPeers::join(Peer& peer, const std::string& hello_bytes) {
  WatchHello hello{};
  if (!read_message_bytes(hello_bytes, 0, hello) || hello.run_id != run_id_) return false;
  // Rank 0 has no connection to itself, so a hello with its number is not of this run.
  if (hello.rank <= 0 || hello.rank >= std::ssize(joined_)) return false;
  // A rank connects once: the end of a second connection must not count as the end of the rank.
  if (joined_[hello.rank]) return false;
  joined_[hello.rank] = true;
  peer.rank = hello.rank;
  return true;
}

void WatchPeers::send(FrameKind kind, std::string_view body) {
  for (Peer& peer : peers_) peer.stream.send(kind, body);
}

void WatchPeers::say_goodbye() {
  constexpr int64_t kGoodbyeMs = 1000;
  constexpr int kPollMs = 250;
  for (const Peer& peer : peers_) ::shutdown(peer.stream.fd(), SHUT_WR);
  const int64_t end_ms = monotonic_ms() + kGoodbyeMs;
  while (!peers_.empty() && monotonic_ms() < end_ms) {
    std::vector<pollfd> waits;
    for (const Peer& peer : peers_) waits.push_back({peer.stream.fd(), POLLIN, 0});
    ::poll(waits.data(), waits.size(), kPollMs);
    std::vector<Frame> ignored;
    std::erase_if(peers_, [&](Peer& peer) { return !peer.stream.receive(ignored); });
  }
}

}  // namespace xrun

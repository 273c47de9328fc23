#pragma once
// Messages of the watchdogs over a stream socket: kind, length, bytes.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/dist/watch/socket.h"

namespace xrun {

enum class FrameKind : uint32_t {
  kHello = 1,  // to rank 0: the sender's run, rank and clock
  kStatus,     // to rank 0: RankStatus, times as ages
  kFailure,    // to rank 0: exit status and error
  kLeave,      // either way: the sender leaves in an orderly way
  kTable,      // from rank 0: every rank's RankStatus, times as ages
  kVerdict,    // from rank 0: RankVerdict
  kError,      // to rank 0: the error that stops a rank; from rank 0: the first one, as RankVerdict
};

struct Frame {
  FrameKind kind;
  std::string body;
};

// Never blocks. Not thread-safe.
class FrameStream {
 public:
  explicit FrameStream(Socket socket);

  int fd() const { return socket_.fd(); }
  bool wants_to_write() const { return !unsent_.empty(); }

  void send(FrameKind kind, std::string_view body);
  // Sends as much as the system takes now.
  void flush();
  // Appends the frames that have come. Returns false once the other end is gone or sends nonsense.
  bool receive(std::vector<Frame>& out);

 private:
  Socket socket_;
  std::string unsent_;
  std::string received_;
};

}  // namespace xrun

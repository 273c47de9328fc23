#pragma once
// The output of a rank: lines from a pipe, printed with the rank's number before them.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/dist/watch/socket.h"

namespace xrun {

// Holds back lines from before the rank joined the others: if all ranks end alike, as after a
// mistyped option, the launcher prints those of one rank only.
class RankOutput {
 public:
  RankOutput() = default;  // closed: rank 0 has the launcher's own streams
  // Reads from `pipe`, without waiting.
  RankOutput(int64_t rank, Socket pipe);

  bool open() const { return pipe_.open(); }
  int fd() const { return pipe_.fd(); }
  // Reads what the pipe holds, and prints its lines once `joined` is true. Closes at the pipe's
  // end.
  void read(const std::function<bool()>& joined);
  void print_early_lines();

 private:
  void take_line(const std::string& line, const std::function<bool()>& joined);

  int64_t rank_ = 0;
  Socket pipe_;
  std::string line_;                      // read, but not ended yet
  std::vector<std::string> early_lines_;  // from before it joined the others
};

}  // namespace xrun

#pragma once
// The processes of `xrun launch` on this machine: started, watched, ended together.

#include <cstdint>
#include <string>
#include <vector>

namespace xrun {

struct RankProcessOptions {
  std::vector<std::string> command;  // of each rank
  int64_t first_rank = 0;            // of this machine
  int64_t local_size = 1;            // ranks of this machine
  int64_t size = 1;                  // ranks of all machines
  std::string address;               // MASTER_ADDR
  int port = 0;                      // MASTER_PORT
  int master_fd = -1;                // the socket that listens there, for rank 0; -1: it opens one
  // Another launcher started this one: bytes of standard input are signals to forward, its end
  // stops the ranks.
  bool from_launcher = false;
};

// Runs the ranks to their end and returns the exit status of the run. Forwards SIGINT, SIGTERM,
// SIGHUP, SIGTSTP and SIGCONT. Rank 0 has the standard streams of this process; lines of the others
// are printed after "[RANK] ". When a rank fails, the others get some time to end, at most 75 s,
// before they and everything that they started are killed; standard error gets "rank R of N: step
// S: what happened". Throws Error if a rank cannot be started.
int run_ranks(const RankProcessOptions& options);

}  // namespace xrun

#pragma once
// `xrun launch --hosts FILE`: the machines of a run, each with a launcher of its own.

#include <cstdint>
#include <string>
#include <vector>

namespace xrun {

struct LaunchHost {
  std::string name;   // as ssh knows it
  int64_t ranks = 1;  // of this run there
};

// Reads a file of lines "HOST" or "HOST slots=N", '#' begins a comment, and fills the hosts in
// order with `ranks` ranks, 0 for all slots. Hosts without ranks are left out. Throws UsageError
// that names the line, or if the slots are too few.
std::vector<LaunchHost> read_hosts(const std::string& path, int64_t ranks);

// The ranks of one machine in a run of several, as the option --host-ranks hands them to its
// launcher:
// "FIRST:COUNT:SIZE:PORT:ADDRESS".
struct HostRanks {
  int64_t first_rank = 0;
  int64_t local_size = 0;
  int64_t size = 0;
  int port = 0;
  std::string address;
};
std::string host_ranks_text(const HostRanks& ranks);
// Throws UsageError for any other text.
HostRanks read_host_ranks(const std::string& text);

// Starts `xrun launch --host-ranks ... WORDS` on every host, by ssh or $XRUN_LAUNCH_SSH, in the
// same folder, and returns the exit status of the run. Signals go there as bytes on standard input,
// whose end stops that launcher, so that none survives this process. Throws Error if one cannot be
// started.
int run_hosts(const std::vector<LaunchHost>& hosts, const std::vector<std::string>& words);

}  // namespace xrun

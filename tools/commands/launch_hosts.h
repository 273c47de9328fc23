#pragma once
// `xrun launch --hosts FILE`: a run over several machines, with one launcher on each.

#include <cstdint>
#include <string>
#include <vector>

namespace xrun {

constexpr int64_t kMostHostRanks = 1024;  // ranks of one machine

struct LaunchHost {
  std::string name;   // as ssh knows it
  int64_t ranks = 1;  // of the run on this host
};

// Reads a file of lines "HOST" or "HOST slots=N", where '#' begins a comment, and fills the hosts
// in order with `ranks` ranks; 0 fills every slot. Returns the hosts that have ranks. Throws
// UsageError for a line of another form, which it names, for more than kMostHostRanks slots, and
// for too few in all.
std::vector<LaunchHost> read_hosts(const std::string& path, int64_t ranks);

// The ranks of one machine in a run over several. Its launcher gets them through --host-ranks as
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

// Starts `xrun launch --host-ranks ... WORDS` in the same folder on every host, by ssh or
// $XRUN_LAUNCH_SSH, and returns the exit status of the run. Signals travel as bytes on a launcher's
// standard input. A launcher stops when its input ends, so none survives this process. Throws Error
// if a launcher cannot be started.
int run_hosts(const std::vector<LaunchHost>& hosts, const std::vector<std::string>& words);

}  // namespace xrun

#pragma once
// The meeting of the ranks of a run: a store that rank 0, or torchrun's agent, serves.

#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "core/dist/watch/rank_environment.h"

namespace xrun {

// Opens the store of the process group. Rank 0 listens on the loopback interface if all ranks are
// on this machine; it takes over the socket of $XRUN_MASTER_FD if `xrun launch` has opened one. The
// other ranks wait for rank 0, at most $XRUN_DIST_JOIN_S seconds (300). Throws Error if the address
// is wrong, the port is in use, or nobody answers.
c10::intrusive_ptr<c10d::Store> open_store(const RankEnvironment& env);

// Waits until all ranks have come, and checks that their programs are alike. `program` has a line
// "name value" for each part. Throws
//   Error       names the ranks that have not come in time
//   UsageError  another process came as this rank, such as one of a second job with the same
//               address; on every rank: the world sizes differ, or the programs, whose first
//               difference it names
void meet(c10d::Store& store, const RankEnvironment& env, const std::string& program);

// Returns the address at which this machine listens for the other ranks.
std::string own_address(const RankEnvironment& env);

}  // namespace xrun

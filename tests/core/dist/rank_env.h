#pragma once
// The environment of a rank on this machine, for tests.

#include <cstdint>

#include "core/dist/watch/rank_environment.h"

namespace xrun {

inline RankEnvironment env_of(int64_t rank, int64_t size, int port = 29500) {
  RankEnvironment env;
  env.rank = env.local_rank = rank;
  env.world_size = env.local_size = size;
  env.address = "127.0.0.1";
  env.port = port;
  return env;
}

}  // namespace xrun

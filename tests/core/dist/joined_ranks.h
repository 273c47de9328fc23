#pragma once
// Ranks as threads of one process, joined as those of a run are: over c10d and the loopback
// interface.

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/dist/join_ranks.h"
#include "core/dist/watch/socket.h"
#include "tests/core/dist/rank_env.h"

namespace xrun {

inline int free_port() { return port_of(listen_on(0, /*loopback=*/true)); }

// Runs the body once for each rank; returns the message that each threw, or "".
inline std::vector<std::string> run_ranks(int64_t size, const std::function<void(Ranks&)>& body,
                                          bool check = false,
                                          const std::function<std::string(int64_t)>& program = {}) {
  const int port = free_port();
  std::vector<std::string> errors(size);
  std::vector<std::thread> threads;
  for (int64_t r = 0; r < size; ++r) {
    threads.emplace_back([&, r] {
      try {
        FlightRecord record;
        JoinOptions options;
        options.program = program ? program(r) : "test";
        options.limits.late_ms = 100;
        options.record = &record;
        options.check = check;
        const std::unique_ptr<Ranks> ranks = join_ranks(env_of(r, size, port), options);
        body(*ranks);
        ranks->barrier("end");
      } catch (const std::exception& error) {
        errors[r] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

}  // namespace xrun

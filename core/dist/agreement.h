#pragma once
// Work that each rank does separately, with one outcome for all: it succeeds on all ranks or fails
// on all, so that no rank waits for one that has given up.
//
// Without ranks (null) each function does its work and nothing else.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"

namespace xrun {

class Ranks;

// The failure of a rank, as all others report it: "rank 2 of 4: " and its message.
class RankError : public Error {
 public:
  RankError(int64_t rank, const std::string& message) : Error(message), rank_(rank) {}
  int64_t rank() const { return rank_; }

 private:
  int64_t rank_;
};

// Runs `work` on this rank and returns the results of all, in rank order. If it threw on a rank,
// every rank throws. A rank that failed throws its own error, the others RankError (UsageError for
// bad usage) with the message of the lowest rank that failed. If only signals stopped ranks, all
// throw Interrupted with the flag raised.
std::vector<std::string> gather_results(Ranks* ranks, std::string_view label,
                                        const std::function<std::string()>& work);

// Runs `work` on this rank, without results. Throws as gather_results does.
void agree(Ranks* ranks, std::string_view label, const std::function<void()>& work);

// Runs `work` on rank 0 alone; every rank returns its result or throws as above.
std::string from_first_rank(Ranks* ranks, std::string_view label,
                            const std::function<std::string()>& work);
void on_first_rank(Ranks* ranks, std::string_view label, const std::function<void()>& work);

// Returns true without ranks and on rank 0, the one that writes and prints.
bool is_first_rank(const Ranks* ranks);

// Raises the interrupt flag on every rank if it is raised on one. Returns true if it is.
bool agree_on_interrupt(Ranks* ranks, std::string_view label);

}  // namespace xrun

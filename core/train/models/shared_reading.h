#pragma once
// Finds the ranks that share the reading of files. Ranks that see other files, such as copies on
// another machine, read those themselves, so that a copy that differs is found.

#include <cstddef>
#include <filesystem>
#include <vector>

#include "core/dist/ranks.h"

namespace xrun {

// The ranks of a run that read the same files, in rank order.
struct ReadingGroup {
  std::vector<size_t> ranks;
  size_t own = 0;  // this rank's number among them

  size_t size() const { return ranks.size(); }
};

// Returns the group of this rank: those of its machine that see the same files, unchanged. Every
// rank makes the call.
ReadingGroup reading_group(Ranks& ranks, const std::vector<std::filesystem::path>& files);

}  // namespace xrun

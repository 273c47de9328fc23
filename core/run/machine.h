#pragma once
// The machine under a run: its description for run.json, and free disk space.

#include <cstdint>
#include <filesystem>
#include <string>

#include "core/base/json.h"

namespace xrun {

// Returns {"cpu": model name, "cores": hardware threads, "memory_bytes", "system": kernel and
// architecture}. Facts that the system does not report are left out; names of the machine and
// its user are never included.
Json run_environment();

// Bytes that a run writes.
struct DiskNeeds {
  int64_t checkpoint = 0;   // size of one
  int64_t checkpoints = 1;  // the largest number that exist at the same time
  int64_t exported = 0;
  int64_t rollouts = 0;  // records of sampled answers
};

// Throws Error if the folder's disk has no room for one checkpoint. Returns a warning if it has
// room for that but not for everything, else "": a disk that fills up loses the steps since the
// last save. The folder need not exist yet. Passes if the free space is unknown.
std::string check_disk_space(const std::filesystem::path& dir, const DiskNeeds& needs);

}  // namespace xrun

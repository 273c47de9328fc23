#pragma once
// The machine under a run: its description for run.json, and free disk space.

#include <cstdint>
#include <filesystem>

#include "core/base/json.h"

namespace xrun {

// Returns {"cpu": model name, "cores": hardware threads, "memory_bytes", "system": kernel and
// architecture}. What the system does not tell is left out; names of the machine and its user are
// never included.
Json run_environment();

// Throws Error with both sizes if fewer than `wanted` bytes are free for the folder, which need not
// exist yet: a run that fills its disk loses what it trained since its last save. Passes if the
// free space is unknown.
void check_disk_space(const std::filesystem::path& dir, int64_t wanted);

}  // namespace xrun

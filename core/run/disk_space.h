#pragma once
// Whether what a run will save fits its disk, asked before step 0: a full disk at its end loses
// what was trained since the last save.

#include <cstdint>
#include <filesystem>

namespace xrun {

// Throws Error that says both sizes if fewer than `wanted` bytes are free for the folder, which
// need not be there yet. What cannot be looked at passes.
void check_disk_space(const std::filesystem::path& dir, int64_t wanted);

}  // namespace xrun

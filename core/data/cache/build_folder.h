#pragma once
// The folder of a cache while it is built: what an interrupted build left there.

#include <filesystem>
#include <system_error>

#include "core/data/cache/cache_manifest.h"

namespace xrun {

// Removes half-written files of killed processes. Requires the folder's lock.
void remove_temporaries(const std::filesystem::path& dir);

// Removes what is committed of an unfinished build. Requires the folder's lock.
void remove_build(const std::filesystem::path& dir);

// Removes the folder with all that is in it, the lock too: its name is free at once, and who waits
// for the lock makes another folder. Requires the folder's lock. Returns what went wrong.
std::error_code remove_cache_folder(const std::filesystem::path& dir);

// Returns the partial manifest, with at least one segment, each of them checked to the last byte.
// Throws Error that says why the build cannot go on, FileError if the system cannot read what is
// there, Interrupted.
CacheManifest read_interrupted_build(const std::filesystem::path& dir);

}  // namespace xrun

#pragma once
// Lists and removes the folders of a cache store, finished and unfinished, and reads what an
// interrupted build left.

#include <cstdint>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "core/data/cache/cache_manifest.h"

namespace xrun {

enum class CacheState { kFinished, kUnfinished, kBuilding, kUnreadable };

const char* cache_state_name(CacheState state);  // "finished", "unfinished", ...

struct CacheFolder {
  std::filesystem::path dir;  // named by the key
  CacheState state = CacheState::kUnreadable;
  std::string problem;   // why it is unreadable
  std::string row_type;  // "chat"; from here to tokens a readable manifest is needed
  std::string name;      // of the source
  std::vector<std::string> files;
  int64_t rows = 0;  // committed
  int64_t tokens = 0;
  uint64_t bytes = 0;     // of all its files
  int64_t changed_s = 0;  // last change, in seconds since 1970
};

// Returns the cache folders of a store, oldest first; none if there is no store. Reads manifests,
// no rows. Throws FileError if the store cannot be listed.
std::vector<CacheFolder> list_caches(const std::filesystem::path& data_root);

// Removes a cache folder. Processes that have it open continue to read. Throws Error, and removes
// nothing, if it is not a cache folder, contains other files, or is being built by another process.
void remove_cache(const std::filesystem::path& dir);

// Returns true for the name of a cache folder: 32 lower-case hexadecimal digits.
bool is_cache_key(const std::string& name);

// Removes the half-written files of killed processes. Requires the folder's lock.
void remove_temporaries(const std::filesystem::path& dir);

// Removes the committed shards of an unfinished build. Requires the folder's lock.
void remove_build(const std::filesystem::path& dir);

// Removes the folder with everything in it, including its lock: the name is free at once, and a
// process that waits for the lock makes a new folder. Requires the folder's lock. Returns the
// error, if any.
std::error_code remove_cache_folder(const std::filesystem::path& dir);

// Returns the partial manifest of an interrupted build, which has at least one shard, after
// checking every byte of the shards. Requires the folder's lock. Throws
//   Error        the reason why the build cannot continue
//   FileError    the system cannot read the files
//   Interrupted  on a signal
CacheManifest read_interrupted_build(const std::filesystem::path& dir);

}  // namespace xrun

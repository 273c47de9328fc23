#pragma once
// The folders of a cache store: what they hold, how one is removed.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace xrun {

enum class CacheState { kFinished, kUnfinished, kBuilding, kUnreadable };

const char* cache_state_name(CacheState state);  // "finished", "unfinished", ...

struct CacheFolder {
  std::filesystem::path dir;  // named by the key
  CacheState state = CacheState::kUnreadable;
  std::string problem;   // of an unreadable one
  std::string row_type;  // "chat"; what follows is known of readable manifests alone
  std::string name;      // of the source
  std::vector<std::string> files;
  int64_t rows = 0;  // committed
  int64_t tokens = 0;
  uint64_t bytes = 0;     // of all its files
  int64_t changed_s = 0;  // when it last changed, in seconds since 1970
};

// Returns the folders of a store, oldest first. Whatever else lies in `data_root` is left out; a
// store that is not there is empty. Reads manifests, no rows. Throws FileError if the store cannot
// be listed.
std::vector<CacheFolder> list_caches(const std::filesystem::path& data_root);

// Removes a folder of the store. Throws Error, and removes nothing, if it is no folder of a cache,
// holds what no cache has, or is being built by another process. Who has it open goes on reading.
void remove_cache(const std::filesystem::path& dir);

// Whether a file or folder may be called so: 32 lower-case hexadecimal digits.
bool is_cache_key(const std::string& name);

}  // namespace xrun

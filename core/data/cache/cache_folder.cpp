// A folder belongs to the cache only if it holds nothing but the files of a build; any other folder
// is left alone. A lock that somebody holds marks a build in progress.

#include "core/data/cache/cache_folder.h"

#include <algorithm>
#include <chrono>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/file_lock.h"
#include "core/base/folder.h"
#include "core/base/interrupt.h"
#include "core/data/cache/cache_manifest.h"
#include "core/data/cache/shard_file.h"

namespace xrun {

namespace {

namespace fs = std::filesystem;

bool is_shard_name(const std::string& name) {
  return name.starts_with("segment_") && name.ends_with(".bin");
}

// Returns true for files that a build may leave.
bool belongs_to_cache(const std::string& name) {
  return is_shard_name(name) || name == kBadRowsName || name == kLockName ||
         name.starts_with(kManifestName) || name.starts_with(kPartialName);
}

// The lock file outlives a build; only a held lock means that one is running.
bool is_being_built(const fs::path& dir) {
  return path_exists(dir / kLockName) && !FileLock(dir / kLockName, false).held();
}

int64_t unix_seconds(fs::file_time_type time) {
  const auto since = std::chrono::file_clock::to_sys(time).time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(since).count();
}

void measure(CacheFolder& folder) {
  std::error_code code;
  for (fs::recursive_directory_iterator entry(folder.dir, code), end; !code && entry != end;
       entry.increment(code)) {
    std::error_code failed;
    if (!entry->is_regular_file(failed)) continue;
    const uint64_t bytes = entry->file_size(failed);
    // A file may vanish while a build renames it.
    if (!failed) folder.bytes += bytes;
    const auto time = entry->last_write_time(failed);
    if (!failed) folder.changed_s = std::max(folder.changed_s, unix_seconds(time));
  }
}

void read_figures(CacheFolder& folder, const char* manifest_name) {
  const CacheManifest manifest = read_manifest(folder.dir, manifest_name);
  folder.row_type = manifest.row_type;
  folder.name = manifest.ledger.name;
  folder.files = manifest.ledger.files;
  folder.rows = manifest.rows();
  if (const Json* tokens = manifest.summary.find("tokens")) folder.tokens = tokens->as_int();
}

CacheFolder describe_folder(const fs::path& dir) {
  CacheFolder folder;
  folder.dir = dir;
  measure(folder);
  try {
    const bool finished = path_exists(dir / kManifestName);
    // A finished manifest wins: a lock may be left by a process that only waited.
    folder.state = finished              ? CacheState::kFinished
                   : is_being_built(dir) ? CacheState::kBuilding
                                         : CacheState::kUnfinished;
    if (finished || path_exists(dir / kPartialName)) {
      read_figures(folder, finished ? kManifestName : kPartialName);
    }
  } catch (const Error& error) {
    if (folder.state != CacheState::kBuilding) folder.state = CacheState::kUnreadable;
    folder.problem = error.what();
  }
  return folder;
}

// Removes the files whose names contain `part`, so that the temporaries of every writer are found.
void remove_files(const fs::path& dir, const std::string& part) {
  std::error_code ignored;  // remaining files are overwritten
  for (const fs::path& path : list_folder(dir, ignored)) {
    if (path.filename().string().find(part) != std::string::npos) fs::remove(path, ignored);
  }
}

}  // namespace

const char* cache_state_name(CacheState state) {
  constexpr const char* kNames[] = {"finished", "unfinished", "building", "unreadable"};
  return kNames[static_cast<int>(state)];
}

bool is_cache_key(const std::string& name) {
  return name.size() == 32 && name.find_first_not_of("0123456789abcdef") == std::string::npos;
}

std::vector<CacheFolder> list_caches(const fs::path& data_root) {
  std::vector<CacheFolder> folders;
  for (const fs::path& path : list_folder(data_root)) {
    std::error_code failed;
    const bool folder = fs::is_directory(path, failed) && !fs::is_symlink(path, failed);
    // A cache folder is named by its key; any other folder is somebody else's.
    if (folder && is_cache_key(path.filename().string())) folders.push_back(describe_folder(path));
  }
  std::sort(folders.begin(), folders.end(), [](const CacheFolder& a, const CacheFolder& b) {
    // Oldest first; the path decides between equal times.
    return std::tie(a.changed_s, a.dir) < std::tie(b.changed_s, b.dir);
  });
  return folders;
}

void remove_cache(const fs::path& dir) {
  std::error_code code;
  // Checked before anything is removed, since DIR comes from a command line.
  XRUN_CHECK(is_cache_key(dir.filename().string()) && fs::is_directory(dir, code),
             "{}: is not a cache folder; `xrun cache ls` lists them", dir.string());
  for (const fs::path& path : list_folder(dir)) {
    XRUN_CHECK(belongs_to_cache(path.filename().string()),
               "{}: contains {}, which is not part of a cache; nothing was removed", dir.string(),
               path.filename().string());
  }
  const FileLock lock(dir / kLockName, false);
  XRUN_CHECK(lock.held(), "{}: another process is building it; nothing was removed", dir.string());
  code = remove_cache_folder(dir);
  XRUN_CHECK(!code, "{}: cannot be removed: {}", dir.string(), code.message());
}

void remove_temporaries(const fs::path& dir) { remove_files(dir, ".tmp"); }

// Removes the partial manifest first: without it no shard counts.
void remove_build(const fs::path& dir) {
  std::error_code ignored;
  fs::remove(dir / kPartialName, ignored);
  remove_files(dir, "segment_");
}

std::error_code remove_cache_folder(const fs::path& dir) {
  const fs::path aside = dir.string() + ".removed";
  std::error_code code;
  fs::remove_all(aside, code);  // left by a process that was killed here
  // Renamed first, so that a kill in between never leaves a folder that looks like a cache with
  // missing shards.
  fs::rename(dir, aside, code);
  if (!code) fs::remove_all(aside, code);
  return code;
}

CacheManifest read_interrupted_build(const fs::path& dir) {
  CacheManifest manifest = read_manifest(dir, kPartialName);
  XRUN_CHECK(!manifest.shards.empty(), "no shard is committed");
  for (const ShardEntry& entry : manifest.shards) {
    const fs::path path = dir / entry.file;
    XRUN_CHECK(path_exists(path), "{}: is missing", path.string());
    const ShardFile file(path, manifest.columns, {entry.bytes, entry.head_bytes, entry.head_xxh3});
    // Checks every page, since the finished manifest will vouch for them.
    for (uint64_t page = 0; page < file.header().pages; ++page) {
      check_interrupt();
      file.check_page(page);
    }
  }
  return manifest;
}

}  // namespace xrun

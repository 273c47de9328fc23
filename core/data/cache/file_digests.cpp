// A record is {"file": {...}, "xxh3" or "sha256": digest of the data file, "check": digest of the
// other two}. It is not synced: a damaged or lost record is made again.

#include "core/data/cache/file_digests.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/folder.h"
#include "core/base/hash.h"
#include "core/base/json.h"
#include "core/base/sha256.h"
#include "core/data/cache/cache_folder.h"

namespace xrun {

namespace {

namespace fs = std::filesystem;
constexpr uint64_t kMaxRecordBytes = 1 << 16;

int64_t nanoseconds(const timespec& time) {
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

struct FileState {
  Json document;           // everything that must be unchanged
  int64_t changed_ns = 0;  // the later of mtime and ctime, since 1970
};

// Includes the ctime, since programs that copy files set the mtime back.
std::optional<FileState> state_of(const fs::path& path) {
  std::error_code code;
  const fs::path real = fs::canonical(path, code);
  struct stat info {};
  if (code || ::stat(real.c_str(), &info) != 0) return std::nullopt;
  FileState state;
  state.document = Json::object();
  state.document.set("path", real.string());
  state.document.set("bytes", static_cast<int64_t>(info.st_size));
  state.document.set("device", static_cast<int64_t>(info.st_dev));
  state.document.set("inode", static_cast<int64_t>(info.st_ino));
  state.document.set("mtime_ns", nanoseconds(info.st_mtim));
  state.document.set("ctime_ns", nanoseconds(info.st_ctim));
  state.changed_ns = std::max(nanoseconds(info.st_mtim), nanoseconds(info.st_ctim));
  return state;
}

int64_t now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return nanoseconds(now);
}

// Covers both members, so that a record cannot pair one file with the digest of another.
std::string check_of(const Json& file, const std::string& digest) {
  return hash_hex(dump_json(file) + digest);
}

// Returns "" if there is no valid record.
std::string read_record(const fs::path& path, const Json& file, const char* name) {
  try {
    if (!path_exists(path)) return "";
    const Json record = parse_json(read_file(path, kMaxRecordBytes), path.string());
    const std::string& digest = record.at(name).as_string();
    // The check covers a flipped bit of the record, which nothing else would notice.
    const bool same =
        record.at("file") == file && record.at("check").as_string() == check_of(file, digest);
    return same ? digest : "";
  } catch (const Error&) {
    return "";
  }
}

// Ignores failures: the digest is then computed again next time.
void write_record(const fs::path& path, const Json& file, const char* name,
                  const std::string& digest) {
  Json record = Json::object();
  record.set("file", file);
  record.set(name, digest);
  record.set("check", check_of(file, digest));
  // Unique to this thread among all processes.
  const fs::path temporary = path.string() + fmt::format(".tmp{}", ::gettid());
  std::error_code failed, ignored;
  try {
    make_dirs(path.parent_path());
    FileWriter writer(temporary);
    writer.write(dump_json(record));
    writer.close();
    fs::rename(temporary, path, failed);
    if (failed) fs::remove(temporary, ignored);
  } catch (const std::exception&) {  // also a lack of memory
    fs::remove(temporary, ignored);
  }
}

const char* digest_name(DigestKind kind) { return kind == DigestKind::kXxh3 ? "xxh3" : "sha256"; }

std::string digest_pieces(DigestKind kind, const fs::path& path,
                          const std::function<void(uint64_t)>& each) {
  return kind == DigestKind::kXxh3 ? hash_file_pieces(path, each) : sha256_file(path, each);
}

// Returns true for HASH.json, and for HASH.json.tmp7 of a writer that was killed.
bool is_record(const fs::path& path) {
  const std::string name = path.filename();
  const size_t end = name.find(".json");
  return is_cache_key(name.substr(0, end)) && end < name.size();
}

}  // namespace

FileDigests::FileDigests(fs::path dir, std::chrono::nanoseconds min_age, DigestKind kind)
    : dir_(std::move(dir)), min_age_(min_age), kind_(kind) {}

fs::path FileDigests::record_path(const fs::path& path) const {
  std::error_code code;
  const fs::path real = fs::canonical(path, code);
  // One record per file, whatever path leads to it.
  return dir_ / (hash_hex((code ? path : real).string()) + ".json");
}

std::string FileDigests::digest(const fs::path& path,
                                const std::function<void(uint64_t)>& each) const {
  if (dir_.empty()) return digest_pieces(kind_, path, each);
  const fs::path record = record_path(path);
  const int64_t start = now_ns();
  // Taken before and after the read: a file that is written meanwhile is not remembered.
  const std::optional<FileState> before = state_of(path);
  if (before) {
    const std::string known = read_record(record, before->document, digest_name(kind_));
    if (!known.empty()) return known;
  }
  const std::string digest = digest_pieces(kind_, path, each);
  const std::optional<FileState> after = state_of(path);
  // A file changed a moment ago may change again within one tick of the file system's clock.
  const bool settled = before && after && before->document == after->document &&
                       start - before->changed_ns >= min_age_.count();
  if (settled) write_record(record, before->document, digest_name(kind_), digest);
  return digest;
}

std::vector<fs::path> FileDigests::files_with(const std::string& digest) const {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (const fs::path& path : list_folder(dir_, ignored)) {
    if (!is_record(path)) continue;
    try {
      const Json record = parse_json(read_file(path, kMaxRecordBytes), path.string());
      if (record.at(digest_name(kind_)).as_string() != digest) continue;
      found.emplace_back(record.at("file").at("path").as_string());
    } catch (const Error&) {
      // A damaged record is skipped.
    }
  }
  return found;
}

void FileDigests::forget(const fs::path& path) const {
  std::error_code ignored;
  if (!dir_.empty()) fs::remove(record_path(path), ignored);
}

bool FileDigests::forget_all() const {
  std::error_code ignored;
  std::vector<fs::path> records;
  for (const fs::path& path : list_folder(dir_, ignored)) {
    if (is_record(path)) records.push_back(path);
  }
  bool removed = false;
  for (const fs::path& path : records) removed |= fs::remove(path, ignored);
  fs::remove(dir_, ignored);
  return removed;
}

}  // namespace xrun

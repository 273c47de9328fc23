#pragma once
// Remembered digests of data files, so that a file is not read each time it is opened.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace xrun {

// Folders of remembered digests in the store, one for each algorithm.
constexpr const char* kFileDigestsFolder = "file_digests";
constexpr const char* kFileSha256Folder = "file_sha256";

enum class DigestKind { kXxh3, kSha256 };

// A folder with one small record per data file: path, size, inode, times of change and digest. A
// digest is valid while all of these are unchanged. A file that changed very recently is not
// remembered: a second change might fall into the same tick of the file system's clock. Thread- and
// process-safe.
class FileDigests {
 public:
  // An empty `dir` remembers nothing.
  explicit FileDigests(std::filesystem::path dir = {},
                       std::chrono::nanoseconds min_age = std::chrono::seconds(5),
                       DigestKind kind = DigestKind::kXxh3);

  // Returns the digest of a file as hash_file_pieces or sha256_file does. A remembered digest is
  // returned without calling `each`. A folder that cannot be written costs only time.
  std::string digest(const std::filesystem::path& path,
                     const std::function<void(uint64_t bytes)>& each) const;
  // Returns the files that had this digest when they were last read, by path; they may have changed
  // since.
  std::vector<std::filesystem::path> files_with(const std::string& digest) const;
  // Forgets one file.
  void forget(const std::filesystem::path& path) const;
  // Forgets every file; returns true if it forgot any. Removes the folder too unless it contains
  // other files.
  bool forget_all() const;

 private:
  std::filesystem::path record_path(const std::filesystem::path& path) const;

  std::filesystem::path dir_;
  std::chrono::nanoseconds min_age_;
  DigestKind kind_;
};

}  // namespace xrun

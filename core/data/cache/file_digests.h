#pragma once
// Digests of data files, remembered so that a file is not read at every opening.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace xrun {

// The folder of the store that holds them.
constexpr const char* kFileDigestsFolder = "file_digests";

// A folder with a small file for each data file: its path, size, inode, times of change and digest.
// A digest is believed while all of these are as they were. A file that changed a moment ago is not
// remembered: a second change might come within the same tick of its file system's clock. Thread-
// and process-safe.
class FileDigests {
 public:
  // "" remembers nothing.
  explicit FileDigests(std::filesystem::path dir = {},
                       std::chrono::nanoseconds min_age = std::chrono::seconds(5));

  // Returns the digest of a file of `bytes` bytes, as hash_file_pieces does; a remembered one
  // without a call of `each`. A folder that cannot be written costs time alone.
  std::string digest(const std::filesystem::path& path,
                     const std::function<void(uint64_t bytes)>& each) const;
  // What is remembered of a file is not to be believed any more.
  void forget(const std::filesystem::path& path) const;
  // Forgets every file, and returns whether it knew any. The folder goes too unless it holds
  // anything else.
  bool forget_all() const;

 private:
  std::filesystem::path record_path(const std::filesystem::path& path) const;

  std::filesystem::path dir_;
  std::chrono::nanoseconds min_age_;
};

}  // namespace xrun

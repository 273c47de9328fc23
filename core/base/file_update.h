#pragma once
// An existing file that several processes write at once, each at its own offsets.

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace xrun {

// Open from construction until close() or destruction. Every function throws FileError, and so does
// the constructor if the file does not exist.
class FileUpdate {
 public:
  explicit FileUpdate(const std::filesystem::path& path);
  ~FileUpdate();
  FileUpdate(const FileUpdate&) = delete;
  FileUpdate& operator=(const FileUpdate&) = delete;

  // Writes all of `bytes`, starting at byte `offset` of the file.
  void write(uint64_t offset, std::string_view bytes);
  void sync();   // returns once the data is on the disk
  void close();  // throws if the system reports a late failure

 private:
  std::filesystem::path path_;
  int fd_;
};

}  // namespace xrun

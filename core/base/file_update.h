#pragma once
// Writes at offsets of an existing file, which several processes may do at a time.

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace xrun {

// Every function throws Error that names the path and the system's reason.
class FileUpdate {
 public:
  explicit FileUpdate(const std::filesystem::path& path);
  ~FileUpdate();
  FileUpdate(const FileUpdate&) = delete;
  FileUpdate& operator=(const FileUpdate&) = delete;

  void write(uint64_t offset, std::string_view bytes);
  void sync();
  void close();  // throws if the system reports a late failure

 private:
  std::filesystem::path path_;
  int fd_;
};

}  // namespace xrun

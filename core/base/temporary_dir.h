#pragma once
// A folder in the system's folder for temporary files that goes with its owner.

#include <filesystem>
#include <string>

namespace xrun {

// Made by the constructor, removed with all that stands in it by the destructor. One that a killed
// process left is removed by the next process that makes one. Not copied.
class TemporaryDir {
 public:
  // `name` begins the folder's name. Throws Error if it cannot be made.
  explicit TemporaryDir(const std::string& name);
  ~TemporaryDir();
  TemporaryDir(const TemporaryDir&) = delete;
  TemporaryDir& operator=(const TemporaryDir&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int lock_ = -1;
};

// Removes every one of this process: what _exit would leave. Async-signal-safe.
void remove_temporary_dirs() noexcept;

}  // namespace xrun

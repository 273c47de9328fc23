#pragma once
// Temporary folders, removed with all their contents even after a signal.

#include <filesystem>
#include <string>

namespace xrun {

// Returns the folder for temporary files: TMPDIR, or /tmp if that is unset or empty. Throws Error
// if it is not a folder.
std::filesystem::path temporary_root();

// Made by the constructor, removed with all its contents by the destructor. A folder that a killed
// process left behind is removed by the next process that makes one of the same name. Not copied.
class TemporaryDir {
 public:
  // Makes TMPDIR/xrun-NAME-XXXXXX. Throws Error if it cannot be made.
  explicit TemporaryDir(const std::string& name);
  ~TemporaryDir();
  TemporaryDir(const TemporaryDir&) = delete;
  TemporaryDir& operator=(const TemporaryDir&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int lock_ = -1;
  int slot_ = -1;  // its entry in the table of remove_temporary_dirs()
};

// Removes every temporary folder of this process, for an exit without destructors (_exit).
// Async-signal-safe.
void remove_temporary_dirs() noexcept;

}  // namespace xrun

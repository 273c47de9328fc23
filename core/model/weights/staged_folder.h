#pragma once
// A folder that appears under its name complete or not at all.

#include <filesystem>

namespace xrun {

// Files are written into path(), a hidden sibling of the target, which commit() renames. Without
// commit() the destructor removes it. Not thread-safe.
class StagedFolder {
 public:
  // With `replace`, commit() replaces an existing folder, which is removed afterwards. Throws Error
  // if the target exists, is not empty and replace is false.
  StagedFolder(std::filesystem::path target, bool replace);
  ~StagedFolder();
  StagedFolder(const StagedFolder&) = delete;
  StagedFolder& operator=(const StagedFolder&) = delete;

  const std::filesystem::path& path() const { return work_; }
  void commit();

 private:
  std::filesystem::path target_, work_;
};

}  // namespace xrun

#pragma once
// A folder that appears under its name complete or not at all.

#include <filesystem>

namespace xrun {

// Files are written into path(), a hidden sibling of the target, which commit() renames. Without
// commit() the destructor removes it. Not thread-safe.
class NewFolder {
 public:
  // With `replace`, commit() replaces an existing folder, which is removed afterwards. Throws Error
  // if the target exists, is not empty and replace is false.
  NewFolder(std::filesystem::path target, bool replace);
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  const std::filesystem::path& path() const { return work_; }
  void commit();

 private:
  std::filesystem::path target_, work_;
};

}  // namespace xrun

#pragma once
// A folder that appears whole under its name, or not at all.

#include <filesystem>

namespace xrun {

// Files are written into path(), a hidden sibling of the target, and commit() puts it into place.
// Without commit() the destructor removes what was written. Not thread-safe.
class NewFolder {
 public:
  // `replace` lets commit() take the place of a folder that exists; it goes when the new one is
  // there. Throws Error if the target exists, is not empty and replace is false.
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

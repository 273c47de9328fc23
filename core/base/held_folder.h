#pragma once
// A folder shared by several processes; its creator removes it if it is empty and nobody else holds
// it.

#include <filesystem>

namespace xrun {

// Keeps a folder from being removed by another holder of it. The destructor of the holder that made
// the folder removes it again if it is empty and nobody else holds it; else it stays. Not copyable.
class HeldFolder {
 public:
  // Makes the folder if it is missing, and those above it. Throws Error if it cannot be made.
  explicit HeldFolder(const std::filesystem::path& path);
  ~HeldFolder();
  HeldFolder(const HeldFolder&) = delete;
  HeldFolder& operator=(const HeldFolder&) = delete;

 private:
  std::filesystem::path path_;
  bool made_ = false;
  int lock_ = -1;
};

}  // namespace xrun

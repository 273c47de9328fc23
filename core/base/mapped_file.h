#pragma once
// Read-only maps of whole files.

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace xrun {

// Maps a whole file read-only. The caller copies what must survive a later truncation of the file.
class MappedFile {
 public:
  MappedFile() = default;
  // Throws Error if the file cannot be opened or mapped; an empty file gives an empty view.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::string_view bytes() const { return {data_, size_}; }
  // Releases the memory of the pages read so far; the system reads them again on demand.
  void forget() const;

 private:
  const char* data_ = nullptr;
  uint64_t size_ = 0;
};

}  // namespace xrun

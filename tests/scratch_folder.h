#pragma once
// A folder for one test, empty at its start and removed at its end.

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/base/file.h"
#include "tests/error_of.h"

namespace xrun {

class ScratchFolder {
 public:
  // In memory where that is possible: fault tests sync thousands of times, which takes a busy disk
  // half a minute.
  ScratchFolder() {
    for (const std::filesystem::path& root :
         {std::filesystem::path("/dev/shm"), std::filesystem::temp_directory_path(),
          std::filesystem::path(".")}) {
      std::string pattern = root / "xrun_test_XXXXXX";
      if (::mkdtemp(pattern.data()) == nullptr) continue;
      path_ = std::filesystem::absolute(pattern);
      return;
    }
    throw Error("no folder can be made for a test");
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  std::string write(const std::string& name, std::string_view bytes) const {
    write_file_atomic(path_ / name, bytes);
    return (path_ / name).string();
  }

 private:
  std::filesystem::path path_;
};

// Without the checks and syncs of read_file and write_file_atomic: a test may read a folder or a
// file that is not there, and write where no file can be synced.
inline std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

inline void put_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

}  // namespace xrun

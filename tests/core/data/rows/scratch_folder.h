#pragma once
// A folder for one test, empty at its start and removed at its end.

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "core/base/error.h"
#include "core/base/file.h"

namespace xrun {

class ScratchFolder {
 public:
  // In memory where that is possible: these tests sync thousands of times.
  ScratchFolder() {
    for (const std::filesystem::path& root :
         {std::filesystem::path("/dev/shm"), std::filesystem::temp_directory_path(),
          std::filesystem::path(".")}) {
      std::string pattern = root / "xrun_data_XXXXXX";
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
  const std::filesystem::path& path() const { return path_; }
  std::string write(const std::string& name, std::string_view bytes) const {
    write_file_atomic(path_ / name, bytes);
    return (path_ / name).string();
  }

 private:
  std::filesystem::path path_;
};

// Returns the message of the Error that `call` throws, "" if it throws none.
template <typename Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

}  // namespace xrun

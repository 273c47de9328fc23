// Gives a fuzz target its input as a file.

#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "core/base/file.h"
#include "core/base/temporary_dir.h"
#include "tools/fuzz/fuzz_target.h"

namespace xrun {

namespace {

class FuzzFolder {
 public:
  FuzzFolder() {
    // /dev/shm is in memory; a disk would slow each input down.
    for (const std::filesystem::path& root :
         {std::filesystem::path("/dev/shm"), temporary_root()}) {
      path_ = root / "xrun_fuzz_XXXXXX";
      if (::mkdtemp(path_.data()) != nullptr) return;
    }
    throw std::runtime_error("no folder for the files of a fuzz target");
  }
  ~FuzzFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace

std::string fuzz_file(const std::string& name, std::string_view bytes) {
  static const FuzzFolder folder;
  const std::filesystem::path path = std::filesystem::path(folder.path()) / name;
  make_dirs(path.parent_path());
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!file.flush()) throw std::runtime_error("a fuzz target's file cannot be written");
  return folder.path();
}

}  // namespace xrun

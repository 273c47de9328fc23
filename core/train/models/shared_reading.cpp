// A file is the same if its machine, device, inode, size and modification time are. A shared file
// system may look different from each machine; then each machine reads all of it once.

#include "core/train/models/shared_reading.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "core/dist/agreement.h"

namespace xrun {

namespace {

std::string identity_of(const std::vector<std::filesystem::path>& files) {
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  std::string text = host;
  for (const std::filesystem::path& file : files) {
    struct stat info {};
    if (::stat(file.c_str(), &info) != 0) continue;  // reported where it is read
    text += fmt::format(" {}:{}:{}:{}.{}", info.st_dev, info.st_ino, info.st_size,
                        info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
  }
  return text;
}

}  // namespace

ReadingGroup reading_group(Ranks& ranks, const std::vector<std::filesystem::path>& files) {
  const std::vector<std::string> all =
      gather_results(&ranks, "files to read", [&] { return identity_of(files); });
  const auto own = static_cast<size_t>(ranks.rank());
  ReadingGroup group;
  for (size_t r = 0; r < all.size(); ++r) {
    if (all[r] != all[own]) continue;
    if (r == own) group.own = group.size();
    group.ranks.push_back(r);
  }
  return group;
}

}  // namespace xrun

// Landlock's constants, repeated here because linux/landlock.h is often older than the running
// kernel. A ruleset may name only rights that the kernel knows.

#include "core/sandbox/landlock.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "core/base/error.h"

namespace xrun {

namespace {

constexpr long kCreateRuleset = 444, kAddRule = 445, kRestrictSelf = 446;  // on every architecture
constexpr unsigned kQueryVersion = 1;                                      // a flag
constexpr int kPathBeneath = 1;

enum AccessRight : uint64_t {
  kExecute = 1 << 0,
  kWriteFile = 1 << 1,
  kReadFile = 1 << 2,
  kReadDir = 1 << 3,
  kRemoveDir = 1 << 4,
  kRemoveFile = 1 << 5,
  kMakeDir = 1 << 7,
  kMakeFile = 1 << 8,
  kMakeLink = 1 << 12,
  kMoveBetweenFolders = 1 << 13,  // version 2
  kTruncate = 1 << 14,            // version 3
};
constexpr uint64_t kRightsOfVersion1 =
    (1 << 13) - 1;               // also devices, sockets, pipes: never granted
constexpr uint64_t kTcp = 3;     // version 4: bind, connect
constexpr uint64_t kScopes = 3;  // version 6: abstract sockets, signals
constexpr uint64_t kReading = kReadFile | kReadDir;
constexpr uint64_t kWriting = kReading | kWriteFile | kRemoveDir | kRemoveFile | kMakeDir |
                              kMakeFile | kMakeLink | kMoveBetweenFolders | kTruncate;
constexpr uint64_t kOfFiles = kReadFile | kWriteFile | kTruncate;  // the others apply to folders

// Older kernels accept the longer struct as long as its end is zero.
struct Ruleset {
  uint64_t files = 0, network = 0, scopes = 0;
};

struct [[gnu::packed]] PathRule {
  uint64_t rights = 0;
  int32_t folder = -1;
};

void allow(int ruleset, const std::filesystem::path& path, uint64_t rights) {
  const int fd = ::open(path.c_str(), O_PATH | O_CLOEXEC);
  if (fd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP || errno == EACCES)) {
    return;
  }
  XRUN_CHECK(fd >= 0, "landlock: {}: cannot be opened: {}", path.string(), std::strerror(errno));
  struct stat info {};
  const bool folder = ::fstat(fd, &info) == 0 && S_ISDIR(info.st_mode);
  const PathRule rule = {folder ? rights : rights & kOfFiles, fd};
  const long failed = ::syscall(kAddRule, ruleset, kPathBeneath, &rule, 0);
  const int code = errno;
  ::close(fd);
  XRUN_CHECK(failed == 0, "landlock: {}: cannot be allowed: {}", path.string(),
             std::strerror(code));
}

}  // namespace

int landlock_version() {
  const long version = ::syscall(kCreateRuleset, nullptr, 0, kQueryVersion);
  return version < 0 ? 0 : static_cast<int>(version);
}

std::string limit_files_by_landlock(const FileAccess& access, int version) {
  if (version <= 0) {
    return "this kernel has no Landlock: xrun checks every path that the recipe names, but the "
           "kernel does not check them again";
  }
  Ruleset rules{.files = kRightsOfVersion1};
  if (version >= 2) rules.files |= kMoveBetweenFolders;
  if (version >= 3) rules.files |= kTruncate;
  if (version >= 4) rules.network = kTcp;
  if (version >= 6) rules.scopes = kScopes;
  const int ruleset = static_cast<int>(::syscall(kCreateRuleset, &rules, sizeof rules, 0));
  XRUN_CHECK(ruleset >= 0, "landlock: the kernel refused the ruleset: {}", std::strerror(errno));
  for (const auto& path : access.readable) allow(ruleset, path, kReading & rules.files);
  for (const auto& path : access.writable) allow(ruleset, path, kWriting & rules.files);
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);  // else the next call needs CAP_SYS_ADMIN
  const long failed = ::syscall(kRestrictSelf, ruleset, 0);
  const int code = errno;
  ::close(ruleset);
  XRUN_CHECK(failed == 0, "landlock: the kernel refused to apply the ruleset: {}",
             std::strerror(code));
  if (version < 3) {
    return "this kernel's Landlock is older than Linux 6.2: it cannot keep the recipe's process "
           "from truncating files; only xrun does";
  }
  return "";
}

}  // namespace xrun

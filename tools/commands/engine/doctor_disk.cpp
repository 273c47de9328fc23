// Writes an unnamed file for about a second, syncs it, drops it from the page cache and reads it.

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/folder.h"
#include "core/base/process_usage.h"
#include "core/base/strings.h"
#include "tools/commands/engine/doctor_machine.h"

namespace xrun {

namespace {

constexpr size_t kBlock = 4 << 20;
constexpr int kMostBlocks = 64;  // 256 MiB
constexpr double kLongest_s = 1.0;
constexpr double kSlow = 20e6;  // bytes a second: a checkpoint of 1.6 GB takes 80 s
constexpr uint64_t kLittleSpace = 5'000'000'000;  // three checkpoints of a model of 135M

// An open file that is already unlinked.
class UnnamedFile {
 public:
  explicit UnnamedFile(const std::filesystem::path& folder) {
    std::string name = folder / ".xrun-doctor-XXXXXX";
    fd_ = ::mkostemp(name.data(), O_CLOEXEC);
    XRUN_CHECK(fd_ >= 0, "{}: a file cannot be made: {}", folder.string(), std::strerror(errno));
    ::unlink(name.c_str());
  }
  ~UnnamedFile() { ::close(fd_); }
  UnnamedFile(const UnnamedFile&) = delete;
  UnnamedFile& operator=(const UnnamedFile&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

struct Speed {
  double write = 0, read = 0;  // bytes a second
};

// A full disk writes a part first and reports the reason at the next write.
void write_block(int fd, const std::vector<char>& block, const std::filesystem::path& folder) {
  for (size_t at = 0; at < block.size();) {
    const ssize_t n = ::write(fd, block.data() + at, block.size() - at);
    if (n < 0 && errno == EINTR) continue;
    XRUN_CHECK(n > 0, "{}: cannot be written: {}", folder.string(),
               n < 0 ? std::strerror(errno) : "nothing was taken");
    at += static_cast<size_t>(n);
  }
}

Speed measure(const std::filesystem::path& folder) {
  const UnnamedFile file(folder);
  std::vector<char> block(kBlock, 'x');
  for (size_t i = 0; i < block.size(); i += 64) block[i] = static_cast<char>(i * 2654435761U >> 24);
  const SteadyClock::time_point begin = SteadyClock::now();
  int blocks = 0;
  while (blocks < kMostBlocks && seconds_since(begin) < kLongest_s) {
    write_block(file.fd(), block, folder);
    ++blocks;
  }
  XRUN_CHECK(::fsync(file.fd()) == 0, "{}: cannot be synced: {}", folder.string(),
             std::strerror(errno));
  const double bytes = static_cast<double>(kBlock) * blocks;
  Speed speed;
  speed.write = bytes / seconds_since(begin);
  ::posix_fadvise(file.fd(), 0, 0, POSIX_FADV_DONTNEED);
  ::lseek(file.fd(), 0, SEEK_SET);
  const SteadyClock::time_point again = SteadyClock::now();
  while (::read(file.fd(), block.data(), kBlock) > 0) {
  }
  speed.read = bytes / seconds_since(again);
  return speed;
}
}  // namespace

Finding disk_finding(const std::string& what, const std::filesystem::path& folder,
                     const std::string& way_out) {
  Finding finding{Verdict::kOk, what, folder.string()};
  try {
    const std::filesystem::path there = nearest_existing(folder);
    const Speed speed = measure(there);
    std::error_code code;
    const uint64_t free = std::filesystem::space(there, code).available;
    finding.text +=
        fmt::format(": writes {} a second, reads {}, {} free", format_bytes(speed.write),
                    format_bytes(speed.read), format_bytes(static_cast<double>(free)));
    if (!code && free < kLittleSpace) {
      finding.verdict = Verdict::kNote;
      finding.remedy = "little for checkpoints (1.6 GB each of a model of 135M): " + way_out;
    } else if (speed.write < kSlow) {
      finding.verdict = Verdict::kNote;
      finding.remedy = "slow: a checkpoint of a model of 135M takes minutes; " + way_out;
    }
  } catch (const Error& error) {
    finding.verdict = Verdict::kWrong;
    finding.text = error.what();
    finding.remedy = way_out;
  }
  return finding;
}

}  // namespace xrun

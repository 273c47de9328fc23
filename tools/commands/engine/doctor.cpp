// xrun doctor tests whether this machine can train, and prints the fix if it cannot. A disk is
// measured by writing an unnamed file of random bytes for about a second, syncing it, dropping it
// from the page cache and reading it.

#include "tools/commands/engine/doctor.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/folder.h"
#include "core/base/philox.h"
#include "core/base/process_usage.h"
#include "core/base/strings.h"
#include "core/console/terminal/finding.h"
#include "core/run/signals.h"
#include "lua/bind/recipe.h"
#include "tools/commands/command_line.h"
#include "tools/commands/engine/engine_commands.h"
#include "tools/commands/engine/finding_report.h"

namespace xrun {

namespace {

constexpr int kDoctorColumns = 13;  // "sentencepiece"

constexpr size_t kBlock = 4 << 20;
constexpr int kMostBlocks = 64;  // 256 MiB
constexpr double kMeasure_s = 1.0;
constexpr double kSlow = 20e6;  // bytes per second: a checkpoint of 1.6 GB takes 80 s
constexpr uint64_t kLittleSpace = 5'000'000'000;  // three checkpoints of a model of 135M

// An open file that is already unlinked.
class UnnamedFile {
 public:
  explicit UnnamedFile(const std::filesystem::path& folder) {
    std::string name = folder / ".xrun-doctor-XXXXXX";
    fd_ = ::mkostemp(name.data(), O_CLOEXEC);
    XRUN_CHECK(fd_ >= 0, "{}: cannot create a file: {}", folder.string(), std::strerror(errno));
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
  double write = 0, read = 0;  // bytes per second
};

// Writes until all is written: a full disk takes part of a block and reports the reason at the next
// write.
void write_block(int fd, const std::vector<char>& block, const std::filesystem::path& folder) {
  for (size_t at = 0; at < block.size();) {
    const ssize_t n = ::write(fd, block.data() + at, block.size() - at);
    if (n < 0 && errno == EINTR) continue;
    XRUN_CHECK(n > 0, "{}: cannot be written: {}", folder.string(),
               n < 0 ? std::strerror(errno) : "no bytes were written");
    at += static_cast<size_t>(n);
  }
}

Speed measure(const std::filesystem::path& folder) {
  const UnnamedFile file(folder);
  std::vector<char> block = noise_block(kBlock);
  const SteadyClock::time_point begin = SteadyClock::now();
  int blocks = 0;
  while (blocks < kMostBlocks && seconds_since(begin) < kMeasure_s) {
    write_block(file.fd(), block, folder);
    ++blocks;
  }
  // Without the sync the time would be the page cache's.
  XRUN_CHECK(::fsync(file.fd()) == 0, "{}: cannot be synced: {}", folder.string(),
             std::strerror(errno));
  const double bytes = static_cast<double>(kBlock) * blocks;
  Speed speed;
  speed.write = bytes / seconds_since(begin);
  // Only clean pages are dropped, so this follows the sync.
  ::posix_fadvise(file.fd(), 0, 0, POSIX_FADV_DONTNEED);
  ::lseek(file.fd(), 0, SEEK_SET);
  const SteadyClock::time_point again = SteadyClock::now();
  while (::read(file.fd(), block.data(), kBlock) > 0) {
  }
  speed.read = bytes / seconds_since(again);
  return speed;
}

// Reports the writing and reading speed and the free space of a folder. `what` names its contents
// ("cache"), `fix` tells how to choose another folder.
Finding disk_finding(const std::string& what, const std::filesystem::path& folder,
                     const std::string& fix) {
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
      finding.fix = "not enough for many checkpoints (1.6 GB each for a model of 135M): " + fix;
    } else if (speed.write < kSlow) {
      finding.verdict = Verdict::kNote;
      finding.fix = "slow: a checkpoint of a model of 135M takes over a minute; " + fix;
    }
  } catch (const Error& error) {
    finding.verdict = Verdict::kWrong;
    finding.text = error.what();
    finding.fix = fix;
  }
  return finding;
}

Finding cache_finding() {
  constexpr const char* kFix = "set XRUN_CACHE to a folder on another disk";
  try {
    return disk_finding("cache", cache_root(), kFix);
  } catch (const Error& error) {
    return {Verdict::kWrong, "cache", error.what(), kFix};
  }
}

// Adds what `find` returns. An error of a check is a finding too.
template <class Find>
void add_found(FindingReport& report, const std::string& subject, const Find& find) {
  try {
    report.add(find());
  } catch (const Error& error) {
    report.add(
        {Verdict::kWrong, subject, error.what(), "install or create what the message names"});
  }
}

}  // namespace

std::vector<char> noise_block(size_t size) {
  std::vector<char> block(size);
  for (size_t at = 0; at < size; at += sizeof(uint64_t)) {
    const uint64_t bits = philox_u64(0, 0, 0, at);
    std::memcpy(block.data() + at, &bits, std::min(sizeof bits, size - at));
  }
  return block;
}

int command_doctor(int argc, char** argv) {
  CLI::App app(
      "Tests whether this machine can train: processor, memory, LibTorch, GPU, disks, and a short "
      "training run of known outcome. Each line is ok, missing or wrong, with the fix. Exit status "
      "1 if something that is needed is missing or wrong.",
      "xrun doctor");
  bool json = false, quick = false;
  std::string device = "cpu";
  int threads = 0;
  app.add_flag("--json", json, "one JSON object per line: verdict, subject, text, remedy, needed");
  app.add_flag("--quick", quick, "skip the training run");
  app.add_option("--device", device,
                 "the device to train on; with cuda a missing GPU counts as wrong")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  app.add_option("--threads", threads, "threads of the CPU (all)")->check(thread_count());
  if (const auto status = parse_command_line(app, argc, argv)) return *status;
  install_signal_handlers();
  set_up_torch(threads);
  FindingReport report(json, kDoctorColumns);
  report.add(machine_findings());
  report.add(gpu_findings(device == "cuda"));
  report.begin("measuring the disks ...");
  report.add(cache_finding());
  report.add(disk_finding("runs", working_folder() / "runs",
                          "start in a folder on another disk, or give --run DIR"));
  add_found(report, "programs", program_findings);
  if (!quick) {
    report.begin("training a tiny model ...");
    add_found(report, "training", [&] { return smoke_train(device, threads); });
  }
  report.say(report.trouble() == 0
                 ? "\nthis machine can train"
                 : fmt::format("\n{} of {} lines need a fix", report.trouble(), report.size()));
  return report.trouble() == 0 ? 0 : 1;
}

}  // namespace xrun

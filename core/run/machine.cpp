// Sources: /proc/cpuinfo, sysconf, uname, statvfs.

#include "core/run/machine.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <thread>

#include "core/base/error.h"
#include "core/base/folder.h"
#include "core/base/strings.h"

namespace xrun {

namespace {

// The model name of the first processor in /proc/cpuinfo, or "".
std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    const size_t colon = line.find(": ");
    return colon == std::string::npos ? "" : line.substr(colon + 2);
  }
  return "";
}

}  // namespace

Json run_environment() {
  Json out = Json::object();
  const std::string cpu = cpu_name();
  if (!cpu.empty()) out.set("cpu", cpu);
  const auto cores = static_cast<int64_t>(std::thread::hardware_concurrency());
  if (cores > 0) out.set("cores", cores);
  const int64_t pages = ::sysconf(_SC_PHYS_PAGES);
  const int64_t page_bytes = ::sysconf(_SC_PAGESIZE);
  if (pages > 0 && page_bytes > 0) out.set("memory_bytes", pages * page_bytes);
  utsname system{};
  if (::uname(&system) == 0) {
    out.set("system", std::string(system.sysname) + " " + system.release + " " + system.machine);
  }
  return out;
}

std::string check_disk_space(const std::filesystem::path& dir, const DiskNeeds& needs) {
  std::error_code code;
  const std::filesystem::space_info space = std::filesystem::space(nearest_existing(dir), code);
  // Some network file systems do not report it; refusing them would stop runs that have room.
  if (code || space.available == static_cast<uintmax_t>(-1)) return "";
  const auto free = static_cast<double>(space.available);
  const auto one = static_cast<double>(needs.checkpoint);
  const auto answers = static_cast<double>(needs.rollouts);
  const double all =
      one * static_cast<double>(needs.checkpoints) + static_cast<double>(needs.exported) + answers;
  XRUN_CHECK(free >= one,
             "{}: {} are free on this disk, a checkpoint of this run takes {}; free some space, or "
             "give --run a folder on another disk",
             dir.string(), format_bytes(free), format_bytes(one));
  if (free >= all) return "";
  std::string parts =
      fmt::format("up to {} of {}, an export of {}", counted(needs.checkpoints, "checkpoint"),
                  format_bytes(one), format_bytes(static_cast<double>(needs.exported)));
  std::string fix = "free some space, or lower save.keep";
  if (needs.rollouts > 0) {
    parts += fmt::format(", about {} of sampled answers", format_bytes(answers));
    fix += "; older files of rollouts/ may be moved away while the run continues";
  }
  return fmt::format("warning: {} are free on the disk of {}, this run may write {} ({}); {}",
                     format_bytes(free), dir.string(), format_bytes(all), parts, fix);
}

}  // namespace xrun

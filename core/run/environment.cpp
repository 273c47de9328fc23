#include "core/run/environment.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <string>
#include <thread>

namespace xrun {

namespace {

// What /proc/cpuinfo calls the first processor; "" where it does not.
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

}  // namespace xrun

// /proc/self/statm counts pages; getrusage's ru_maxrss counts KiB.

#include "core/base/process_usage.h"

#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>

namespace xrun {

int64_t monotonic_ms() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return int64_t{time.tv_sec} * 1000 + time.tv_nsec / 1000000;
}

int64_t resident_bytes() {
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  // A sandbox may hide /proc.
  if (file == nullptr) return 0;
  long long pages = 0, resident = 0;
  // Fields 1 and 2: size of the address space, resident set.
  const int read = std::fscanf(file, "%lld %lld", &pages, &resident);
  std::fclose(file);
  return read == 2 ? resident * sysconf(_SC_PAGESIZE) : 0;
}

int64_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  // ru_maxrss is in KiB on Linux, in bytes on macOS.
  return int64_t{usage.ru_maxrss} << 10;
}

}  // namespace xrun

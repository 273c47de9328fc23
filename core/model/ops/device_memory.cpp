// The host's memory is the minimum of MemAvailable and what each control group of the process
// leaves. A device's is the driver's free memory plus the blocks that LibTorch's allocator caches,
// which the driver counts as used.

#include "core/model/ops/device_memory.h"

#include <ATen/Context.h>
#include <c10/core/CachingDeviceAllocator.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <optional>

#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/model/ops/allocator.h"

namespace xrun {

namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();
constexpr int64_t kMb = 1'000'000;

std::optional<int64_t> number_from(const std::string& text) {
  const auto value = whole_number_of(text);
  return value && *value >= 0 ? value : std::nullopt;
}

// Returns the number after a name that starts a line: "MemAvailable: 123 kB", "inactive_file 123".
std::optional<int64_t> named_number(const std::filesystem::path& file, const std::string& name) {
  std::ifstream in(file);
  for (std::string word; in >> word;) {
    std::string value;
    if (word == name && in >> value) return number_from(value);
    in.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::nullopt;
}

std::optional<int64_t> number_in(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string word;
  if (!(in >> word)) return std::nullopt;
  return number_from(word);  // none for "max"
}

// The file names of one version of control groups.
struct GroupFiles {
  const char *limit, *usage;
  const char* cache[2];
};
constexpr GroupFiles kVersion1{
    "memory.limit_in_bytes", "memory.usage_in_bytes", {"total_inactive_file", "total_active_file"}};
constexpr GroupFiles kVersion2{"memory.max", "memory.current", {"inactive_file", "active_file"}};

// Returns the memory that a group and its parents leave, the least of all levels: a parent's limit
// holds for its children and may be lower. The page cache counts as free, since the kernel drops it
// before it refuses memory.
int64_t left_in_group(const std::filesystem::path& mount, const std::string& group,
                      const GroupFiles& files) {
  int64_t left = kUnlimited;
  std::filesystem::path path = group;
  while (true) {
    const std::filesystem::path dir = mount / path.relative_path();
    const auto limit = number_in(dir / files.limit), usage = number_in(dir / files.usage);
    if (limit && usage) {
      int64_t used = *usage;
      for (const char* name : files.cache) {
        used -= std::min(used, named_number(dir / "memory.stat", name).value_or(0));
      }
      left = std::min(left, std::max<int64_t>(*limit - used, 0));
    }
    // Up to the root of the mount.
    if (path.relative_path().empty()) return left;
    path = path.parent_path();
  }
}

// Reads the lines of /proc/self/cgroup, "4:memory:/path" of version 1 and "0::/path" of version 2.
// Both versions may be mounted at once.
int64_t left_in_groups(const std::filesystem::path& root) {
  const std::filesystem::path mount = root / "sys/fs/cgroup";
  std::ifstream in(root / "proc/self/cgroup");
  int64_t left = kUnlimited;
  for (std::string line; std::getline(in, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string names = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (names.empty()) left = std::min(left, left_in_group(mount, group, kVersion2));
    if (names == "memory") left = std::min(left, left_in_group(mount / "memory", group, kVersion1));
  }
  return left;
}

// Initialises the device, since its allocator exists only afterwards. Returns null for a kind of
// device whose allocator counts nothing.
c10::DeviceAllocator* allocator_of(c10::Device device) {
  at::globalContext().lazyInitDevice(device.type());
  return dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(device.type()));
}

c10::DeviceIndex index_of(c10::Device device) {
  return std::max<c10::DeviceIndex>(device.index(), 0);
}

const c10::CachingAllocator::Stat& sum_of(const c10::CachingAllocator::StatArray& stats) {
  return stats[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)];
}

}  // namespace

// `root` is the folder with proc and sys: "/", or a test's own.
int64_t system_bytes(const std::filesystem::path& root) {
  const auto kib = named_number(root / "proc/meminfo", "MemAvailable:");
  const int64_t system = kib && *kib < (kUnlimited >> 10) ? *kib << 10 : kUnlimited;
  const int64_t left = std::min(system, left_in_groups(root));
  // 0 says that the limit is unknown.
  return left == kUnlimited ? 0 : std::max<int64_t>(left, 1);
}

// The user's own limit, for machines whose limits cannot be read.
std::optional<int64_t> memory_setting() {
  const char* const own = std::getenv("XRUN_MEMORY_MB");
  if (own == nullptr || own[0] == '\0') return std::nullopt;
  const auto mb = number_from(own);
  XRUN_CHECK(mb && *mb > 0 && *mb < kUnlimited / kMb,
             "XRUN_MEMORY_MB is \"{}\", wanted a whole number of MB above 0", own);
  return *mb * kMb;
}

// At least 1, since 0 would mean unknown.
int64_t available_bytes(const std::filesystem::path& root) {
  if (const auto own = memory_setting()) return std::max<int64_t>(*own - memory_count().held, 1);
  const int64_t left = system_bytes(root);
  // Memory that was freed stays in the heap and can be used again.
  return left == 0 ? 0 : left + free_heap_bytes();
}

DeviceMemory device_memory(c10::Device device) {
  if (device.is_cpu()) {
    const MemoryCount count = memory_count();
    return {count.held, count.peak, available_bytes()};
  }
  c10::DeviceAllocator* const allocator = allocator_of(device);
  if (allocator == nullptr) return {};
  const auto stats = allocator->getDeviceStats(index_of(device));
  const auto& tensors = sum_of(stats.allocated_bytes);
  DeviceMemory memory{tensors.current, tensors.peak, 0};
  if (const auto own = memory_setting()) {
    memory.available = *own - memory.held;
  } else {
    const auto [free, total] = allocator->getMemoryInfo(index_of(device));
    memory.available =
        // Cached blocks count as reserved and are free to the next tensor.
        static_cast<int64_t>(free) + sum_of(stats.reserved_bytes).current - memory.held;
  }
  memory.available = std::max<int64_t>(memory.available, 1);
  return memory;
}

void reset_device_peak(c10::Device device) {
  if (device.is_cpu()) return reset_memory_peak();
  if (c10::DeviceAllocator* const allocator = allocator_of(device)) {
    allocator->resetPeakStats(index_of(device));
  }
}

}  // namespace xrun

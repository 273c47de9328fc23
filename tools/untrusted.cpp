// The child reads the same command line again, and gets its temporary folder and its cache in
// environment variables. Its cache is separate, so an untrusted recipe cannot plant files that a
// trusted one reads.

#include "tools/untrusted.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <list>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/folder.h"
#include "core/base/held_folder.h"
#include "core/base/hub_models.h"
#include "core/base/running_program.h"
#include "core/base/strings.h"
#include "core/base/temporary_dir.h"
#include "core/bundle/bundle_file.h"
#include "core/console/terminal/shown_text.h"
#include "core/dist/watch/rank_environment.h"

namespace xrun {

namespace {

namespace fs = std::filesystem;

constexpr const char* kChild = "XRUN_UNTRUSTED_CHILD";
constexpr const char* kOwnCache = "untrusted";  // in the user's cache

// Files and folders that the program and its libraries read; none belongs to a user.
constexpr const char* kSystem[] = {
    "/usr",           "/lib",           "/lib64",       "/bin",          "/etc/ld.so.cache",
    "/etc/localtime", "/etc/timezone",  "/proc/self",   "/proc/cpuinfo", "/proc/meminfo",
    "/proc/stat",     "/proc/version",  "/proc/driver", "/proc/devices", "/proc/modules",
    "/sys/devices",   "/sys/fs/cgroup", "/sys/bus/pci", "/sys/class",    "/sys/module",
    "/sys/kernel/mm", "/dev/urandom",   "/dev/random",  "/dev/zero",     "/proc/sys/vm"};
constexpr const char* kDevices[] = {"/dev/null", "/dev/tty", "/dev/dri"};

fs::path own_cache() { return absolute_path(cache_root()) / kOwnCache; }

// Fetched models are readable by name; models that a recipe describes are created in made_models.
void make_own_cache(const fs::path& cache) {
  make_dirs(cache);
  std::error_code code;
  fs::create_directory_symlink("../models", cache / "models", code);
}

FileAccess system_access() {
  FileAccess access;
  for (const char* path : kSystem) access.readable.emplace_back(path);
  for (const char* device : kDevices) access.writable.emplace_back(device);
  std::error_code code;
  for (const fs::path& device : list_folder("/dev", code)) {
    if (device.filename().string().starts_with("nvidia")) access.writable.push_back(device);
  }
  // LibTorch, and the CUDA libraries that its wheels put beside it.
  access.readable.push_back(fs::path(XRUN_TORCH_FOLDER).parent_path());
  return access;
}

}  // namespace

bool is_untrusted_child() { return std::getenv(kChild) != nullptr; }

int run_untrusted(const TrustOptions& options, char** argv) {
  if (const auto env = rank_environment(); env && env->world_size > 1) {
    throw UsageError(
        "a recipe that is not trusted runs in one process, since ranks talk over the network; "
        "--trusted runs it without limits");
  }
  const fs::path cache = own_cache();
  make_own_cache(cache);
  const TemporaryDir scratch("untrusted");
  std::vector<fs::path> written = options.named.writable;
  // Held so that the child can write below them but cannot recreate one that another run removed.
  std::list<HeldFolder> held;
  for (const fs::path& folder : written) {
    std::error_code code;
    if (fs::is_directory(folder, code) || !path_exists(folder)) held.emplace_back(folder);
  }
  written.push_back(scratch.path());
  const SandboxEnd end =
      run_in_child(argv,
                   {fmt::format("{}={}", kChild, ::getpid()), "TMPDIR=" + scratch.path().string(),
                    "XRUN_CACHE=" + cache.string()},
                   written, options.limits);
  if (end.text.empty()) return end.status;
  std::fflush(stdout);
  fmt::print(stderr, "xrun: error: {}\n", end.text);
  return end.limit_reached ? 1 : end.status;
}

void enter_untrusted(const TrustOptions& options) {
  const int64_t parent = std::atoll(std::getenv(kChild));
  ::unsetenv(kChild);
  // OpenMP's settings: it would bind its threads one by one, which the seccomp filter refuses,
  // since it cannot tell them from other processes.
  for (const char* name : {"OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY"}) ::unsetenv(name);
  FileAccess access = options.named;
  const fs::path self = program_path();
  access.readable.push_back(self.parent_path());
  const fs::path cache = cache_root();
  access.readable.push_back(cache.parent_path() / "models");
  for (const fs::path& model : hub_models()) access.readable.push_back(model);
  access.writable.push_back(cache);
  access.writable.push_back(temporary_root());
  for (const std::string& weaker : enter_sandbox(access, system_access(), options.limits, parent)) {
    fmt::print(stderr, "xrun: note: {}\n", weaker);
  }
  if (!options.by_default) return;
  fmt::print(stderr,
             "xrun: note: {}: not trusted, so it runs with limits (docs/security.md); "
             "--trusted runs it without\n",
             shown_text(options.foreign));
}

}  // namespace xrun

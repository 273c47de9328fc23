#pragma once
// The paths that a process running an untrusted recipe may open.

#include <filesystem>
#include <string>
#include <vector>

namespace xrun {

// Files, or folders with everything below them. A writable path is also readable.
struct FileAccess {
  std::vector<std::filesystem::path> readable, writable;
};

// From now on opening another path through core/base fails (check_read, check_write). Links in the
// paths are resolved now. Called once, before other threads run; never undone, except by tests with
// nullptr. The kernel's limits (core/sandbox) also cover opens that bypass core/base.
void limit_file_access(const FileAccess* access);

// True once the access is limited: this process works for a recipe that is not trusted.
bool file_access_limited();

// The paths that --read and --set name, set once by main before anything is opened: a bundle's
// missing inputs are looked for there too. They allow nothing by themselves.
void set_named_paths(std::vector<std::filesystem::path> paths);
const std::vector<std::filesystem::path>& named_paths();

// Throws Error that names the option that would allow it, if the path is not among those that may
// be read (written), after all links in it are resolved. Without limits: no check.
void check_read(const std::filesystem::path& path);
void check_write(const std::filesystem::path& path);

}  // namespace xrun

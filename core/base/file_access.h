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

// From now on check_read and check_write reject every other path. Links in the paths are resolved
// once, here. Call it once, before other threads run; only tests undo it, with nullptr. The
// kernel's limits (core/sandbox) also cover opens that bypass core/base.
void limit_file_access(const FileAccess* access);

// Returns true once the access is limited: this process runs an untrusted recipe.
bool file_access_limited();

// The paths that --read and --set name, where a bundle's missing inputs are looked up too. main
// sets them once, before anything is opened. They grant no access by themselves.
void set_named_paths(std::vector<std::filesystem::path> paths);
const std::vector<std::filesystem::path>& named_paths();

// Throws Error, with the option that would allow it, if the path may not be read (written). Links
// in the path are resolved first. Does nothing without limits.
void check_read(const std::filesystem::path& path);
void check_write(const std::filesystem::path& path);

}  // namespace xrun

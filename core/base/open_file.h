#pragma once
// Opens files that other users may have created.

#include <filesystem>

namespace xrun {

// Returns a descriptor of a file to read, after check_read; -1 with errno set if the system cannot.
// In a process that runs an untrusted recipe, throws Error for anything but a regular file or a
// folder, since a pipe would wait for its writer.
int open_to_read(const std::filesystem::path& path);

}  // namespace xrun

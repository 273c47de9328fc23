#pragma once
// Lists the entries of a folder; finds the nearest folder that exists.

#include <filesystem>
#include <system_error>
#include <vector>

namespace xrun {

// Returns the paths of the folder's entries, by name; none if there is no such folder. Throws
// FileError if the system does not list it to the end.
std::vector<std::filesystem::path> list_folder(const std::filesystem::path& dir);

// The same for who goes on without: sets `code`, and returns the entries listed until then.
std::vector<std::filesystem::path> list_folder(const std::filesystem::path& dir,
                                               std::error_code& code);

// Returns the absolute path of `dir`, or of the nearest folder above it that exists; "" where the
// current folder is gone. What cannot be looked at counts as missing.
std::filesystem::path nearest_existing(const std::filesystem::path& dir);

}  // namespace xrun

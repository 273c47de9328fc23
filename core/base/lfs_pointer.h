#pragma once
// The lines that stand for a large file in a Git clone made without Git LFS.

#include <string>
#include <string_view>

namespace xrun {

// Throws Error that names the file and the way out if `bytes`, the beginning of a file or all of
// it, are such a pointer.
void refuse_lfs_pointer(std::string_view bytes, const std::string& path);

}  // namespace xrun

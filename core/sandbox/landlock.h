#pragma once
// Landlock: limits on the paths that this process can open, enforced by the kernel.

#include <string>

#include "core/base/file_access.h"

namespace xrun {

// Returns the version of Landlock in this kernel, 0 for none.
int landlock_version();

// Lets this thread, and those that it starts later, open only these paths: no link leads out of
// them, and no program can be executed. Skips paths that do not exist or cannot be reached. Cannot
// be undone. Returns the limits that this kernel lacks, as text for the user; "" if it has all.
// Throws Error if the kernel has Landlock and refuses.
std::string limit_files_by_landlock(const FileAccess& access, int version = landlock_version());

}  // namespace xrun

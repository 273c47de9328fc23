#pragma once
// The user's cache folder: models, token caches, reference columns.

#include <filesystem>

namespace xrun {

// Returns $XRUN_CACHE, else $XDG_CACHE_HOME/xrun, else ~/.cache/xrun; it need not exist. Throws
// Error if none of the variables, nor HOME, is set.
std::filesystem::path cache_root();

}  // namespace xrun

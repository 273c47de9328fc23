#pragma once
// Ranks of one run must train the same thing: recipe, settings, data and plans are compared before
// step 0.

#include <filesystem>
#include <string_view>

#include "core/base/json.h"
#include "core/run/resume.h"

namespace xrun {

class Ranks;

// Throws UsageError on every rank, naming the first differing field and the ranks, unless all have
// the same recipe, configuration, binary and machine settings. Null: one process.
void compare_identities(Ranks* ranks, const RunIdentity& own);

// Compares any object over the ranks, such as the data and the memory plan of a loop. Throws as
// compare_identities does.
void compare_plans(Ranks* ranks, std::string_view what, const Json& own);

// Checks that every rank sees the run's folder, which rank 0 has opened, and may write there.
// Throws Error that names the rank and the fix. A kill may leave an empty file lock.tmpN.
void check_shared_folder(Ranks* ranks, const std::filesystem::path& dir);

}  // namespace xrun

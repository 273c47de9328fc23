#pragma once
// profile.json of a run that was stopped and resumed: of all its processes together.

#include "core/base/json.h"

namespace xrun {

// Adds up two profiles, objects as LineProfile::to_json makes them: seconds, and the numbers of
// lines of the same file, place and text. A line that reads otherwise now stands for itself, in the
// order of the files and lines. Throws Error that says what is wrong with `before` if it is none.
Json joined_profiles(const Json& before, const Json& now);

}  // namespace xrun

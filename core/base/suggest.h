#pragma once
// The nearest known name to a mistyped one, for did-you-mean.

#include <string>
#include <string_view>
#include <vector>

namespace xrun {

// Returns the Damerau-Levenshtein distance (adjacent swaps count 1), in bytes.
int edit_distance(std::string_view a, std::string_view b);

// Returns the nearest of `known` within a distance of 2 and less than half the length of `name`
// (at least 1), or "" if none is near. Of ties the one that begins most like `name`
// wins, then the earlier entry.
std::string nearest_name(std::string_view name, const std::vector<std::string>& known);

// "; did you mean `optim.lr`?" with the nearest of `known` behind `prefix`, "" if none is near.
std::string did_you_mean(std::string_view name, const std::vector<std::string>& known,
                         std::string_view prefix = "");

}  // namespace xrun

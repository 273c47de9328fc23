#pragma once
// Applies --set key=value to the literals of a recipe's config.

#include <string>
#include <vector>

#include "core/config/config_scan.h"

namespace xrun {

constexpr int kSetLine = -1;  // the line of a literal that --set made

// Sets one value of `root` from `text`, "key=value".
//   key    a key of the recipe or of the engine, or a name inside a table that takes any name; an
//          element of a list is its number: data.1.path
//   value  a Lua literal, or bare text
// Setting `steps` removes `epochs` from `root`, and the reverse. Throws UsageError "--set
// key=value:
// ..." for any other key and for a value whose type differs from that of the recipe's own key. The
// values of the engine's keys are checked later, with the whole config.
void apply_set(const ScannedRecipe& recipe, Literal& root, const std::string& text);

// Returns the origin of a literal: "dpo.lua:12", "--set", "default", or "dpo.xrb (dpo.lua:12)" for
// a bundle's.
std::string literal_origin(const ScannedRecipe& recipe, const Literal& literal);

}  // namespace xrun

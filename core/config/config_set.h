#pragma once
// --set key=value, applied to the literals of a recipe's config.

#include <string>
#include <vector>

#include "core/config/config_scan.h"

namespace xrun {

constexpr int kSetLine = -1;  // the line of a literal that --set made

// Puts the value of "key=value" into `root`: a Lua literal, or bare text. The key is one of the
// recipe's, the engine's, or a name inside a table that takes any name; a list's elements are
// numbers. Throws UsageError "--set key=value: ..." for any other key, and for a value whose type
// differs from that of the recipe's own key (the engine's are checked with the whole config).
// `steps` removes `epochs` from `root`, and the other way round.
void apply_set(const ScannedRecipe& recipe, Literal& root, const std::string& text);

// The position of a literal: "dpo.lua:12", "--set", or a bundle's "dpo.xrb (dpo.lua:12)".
std::string literal_origin(const ScannedRecipe& recipe, const Literal& literal);

}  // namespace xrun

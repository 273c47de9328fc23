#pragma once
// A config over others: `extends = "base.lua"`, or a bundle, gives every value that the config
// leaves out. Tables with named keys merge key by key, at every depth; scalars and lists are
// replaced.

#include <functional>
#include <string>

#include "core/config/config_scan.h"

namespace xrun {

constexpr const char* kExtends = "extends";

// Returns where a file is on disk, of a recipe whose files have other names in messages.
using LocalPath = std::function<std::string(const std::string& file)>;

// Returns the file of a base: beside the file that names it, unless the path is absolute.
std::string base_path(const std::string& file, const std::string& base);

// scan_recipe, with the config laid over those that it extends, which may extend others. Each value
// keeps its origin; `extends` itself is not a value. A bundle gives its resolved settings. Throws
// UsageError with both lines for a cycle, a base that is missing or has no config, and a value
// whose type differs from the base's.
ScannedRecipe scan_with_bases(std::string file, std::string text, const LocalPath& local = {});

}  // namespace xrun

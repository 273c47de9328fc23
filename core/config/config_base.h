#pragma once
// Inheritance of configs: the file in `extends = "base.lua"`, or a bundle, gives every value that
// the config leaves out. Tables with named keys merge key by key, at every depth; scalars and lists
// are replaced.

#include <functional>
#include <string>

#include "core/config/config_scan.h"

namespace xrun {

constexpr const char* kExtends = "extends";

// Returns the path on disk of a file, for a recipe whose files have other names in messages.
using LocalPath = std::function<std::string(const std::string& file)>;

// Returns the path of `base`, relative to the folder of `file`, the config that names it; an
// absolute `base` stays as it is.
std::string base_path(const std::string& file, const std::string& base);

// Scans a recipe as scan_recipe does and merges its config over those that it extends, which may
// extend others. Each value keeps its origin; `extends` itself is removed. A bundle gives its
// resolved settings. Throws UsageError, with the lines involved, as scan_recipe does and for
//   a cycle
//   a base that is missing or has no config
//   a value whose type differs from the base's
ScannedRecipe scan_with_bases(std::string file, std::string text, const LocalPath& local = {});

}  // namespace xrun

#pragma once
// The resolution of model names in recipes and on command lines.

#include <filesystem>
#include <string>
#include <vector>

#include "core/model/weights/model_fetch.h"

namespace xrun {

// Throws Error for a path that a recipe which is not trusted may not read, before the path is
// examined. Names of known models and of repositories pass.
void check_model_name(const std::string& name);

// Returns the folder of a model name: a folder, else a name of known_models() (fetched if it is
// missing), else a repository in the local Hugging Face cache (its "main"). Throws UsageError that
// prints the download command otherwise. `what` is the setting that messages name.
std::filesystem::path resolve_model(const std::string& name, const Notice& notice = {},
                                    const char* what = "model");

// Returns the folder of a model name as resolve_model does, but never downloads: a known model that
// is missing is a UsageError with the command.
std::filesystem::path find_model(const std::string& name);

// Returns every model folder of the two caches, ours and Hugging Face's, by path.
std::vector<std::filesystem::path> cached_models();

// Returns the folder of an adapter's base model (adapter_files.h): a relative path is looked for in
// the adapter's folder first; otherwise it is found as resolve_model does.
// Throws Error that names the adapter if it names no base, UsageError if there is no such model.
std::filesystem::path resolve_base_model(const std::filesystem::path& adapter,
                                         const Notice& notice = {});

}  // namespace xrun

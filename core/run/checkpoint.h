#pragma once
// Checkpoints: folders that are whole or absent, with checksums and a mark of the latest.
//
//   checkpoints/latest             the name of the newest whole folder
//   checkpoints/step_0000100/      NAME.safetensors NAME.json (of each Saveable)
//                                  run.json (step, phases, run.state)  manifest.json (written last)

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/json.h"

namespace xrun {

class Ranks;
class Saveable;

// The objects of a run by name. Names are letters, digits and underscores, not "run" or
// "manifest".
using SavedObjects = std::vector<std::pair<std::string, std::shared_ptr<Saveable>>>;

// Throws Error for the first name that is invalid or occurs twice.
void check_saved_names(const SavedObjects& objects);

// A whole, verified checkpoint.
class Checkpoint {
 public:
  int64_t step() const { return step_; }  // loop bodies done before it
  const std::filesystem::path& path() const { return path_; }
  const Json& run() const { return run_; }  // as given to save
  // Gives each object its tensors and state. Throws Error if the checkpoint holds other names.
  void restore(const SavedObjects& objects) const;

 private:
  friend class CheckpointStore;
  std::filesystem::path path_;
  int64_t step_ = 0;
  Json run_;
  std::vector<std::string> names_;
};

// The checkpoints of one run folder. Not thread-safe; one run at a time (RunDir's lock). With ranks
// all of them make the same calls, each reads and writes its ranges, rank 0 does the rest, and an
// error on one is thrown on all. A checkpoint of n ranks is read by any number of ranks.
//
// A save writes a temporary folder, syncs every file and the folder, renames it into place, flips
// `latest`, and only then removes all but the newest `keep`. After a kill or failure at any moment,
// the previous checkpoint or the new one is whole and marked.
class CheckpointStore {
 public:
  // Makes the folder if it is missing and removes the half-written and half-removed folders of a
  // killed process. Throws Error if it cannot be written.
  CheckpointStore(std::filesystem::path dir, int64_t keep, Ranks* ranks = nullptr);

  // Returns the folder of the new checkpoint. Tensors are written from their own storage. A
  // checkpoint of this step that was saved or loaded through this object is not written again.
  // If it throws Error (a full disk), the previous checkpoint remains and the temporary folder is
  // removed.
  //   alone  this process writes without the others; requires objects that are not in ranges
  std::filesystem::path save(int64_t step, const Json& run, const SavedObjects& objects,
                             bool alone = false);

  // Makes the next save of this step write it again: the run went back before it.
  void forget(int64_t step) {
    if (last_step_ == step) last_step_ = -1;
  }

  // Returns the checkpoint that `latest` names (the newest whole one if that folder was removed),
  // with every size and checksum verified; nullopt if nothing was saved. Throws Error that names
  // the damaged file and the older checkpoint that would be used once the damaged one is removed.
  // Ranks agree on the checkpoint, and each reads and verifies it.
  std::optional<Checkpoint> load_latest();

  // The steps that have a whole checkpoint, ascending.
  std::vector<int64_t> steps() const;

 private:
  void clean();
  Checkpoint load(int64_t step) const;
  void remove_old(int64_t newest);
  void set_aside(const std::string& name);

  std::filesystem::path dir_;
  int64_t keep_;
  Ranks* ranks_;            // null: one process
  int64_t last_step_ = -1;  // saved or loaded here last; -1 if none
};

// Returns the step at which a resume from this folder of checkpoints would begin, nullopt if none
// is whole or the folder does not exist. Reads names only.
std::optional<int64_t> newest_checkpoint(const std::filesystem::path& checkpoints);

// "step_0000100", and the step of such a name; nullopt for any other name.
std::string checkpoint_name(int64_t step);
std::optional<int64_t> checkpoint_step(const std::string& name);

}  // namespace xrun

#pragma once
// The work of one process on a run, for its closing summary.

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/base/json.h"

namespace xrun {

// A folder that a model was exported to, and the type of its weights: "bfloat16".
struct ExportedFolder {
  std::filesystem::path path;
  std::string dtype;
};

// A score that the run should raise, at the first and the last step that logged it.
struct ScoreRange {
  std::string name;  // "reward"
  int64_t first_step = 0, last_step = 0;
  double first = 0, last = 0;
};

struct RunSummary {
  std::string recipe;  // the file, as the user gave it
  std::filesystem::path dir;
  std::vector<ExportedFolder> exported;  // the latest last
  int64_t steps = 0;                     // bodies done, earlier processes included
  int64_t total_steps = 0;               // of the phases begun so far, whatever --steps says
  int64_t first_step = 0;                // where this process began
  std::filesystem::path checkpoint;      // the last one, empty if none
  double seconds = 0;                    // in bodies, of this process
  int64_t tokens = 0;                    // counted by this process
  double peak_rss_mb = 0;
  int64_t tensor_bytes = 0;                  // peak bytes held by tensors; 0: not counted
  bool tensors_on_host = true;               // else on a GPU
  int64_t planned_bytes = 0;                 // this peak, as planned before the run
  std::map<std::string, int64_t> nonfinite;  // values written as null, by metric
  int64_t skipped = 0;         // steps of this process without an update: all their weights were 0
  bool never_updated = false;  // it has an optimizer, and no step asked for an update
  std::string stopped;         // why it ended early: a reason given to stop(), or "--steps 5"
  Json last_train;             // the last object of a step that trained, null if there was none
  std::vector<ScoreRange> scores = {};  // of the whole run
  Json last_valid;                      // the last object with a valid/ key, null if there was none
};

}  // namespace xrun

#pragma once
// A run's folder, read for a report or a comparison. Nothing is locked or written; missing or
// damaged files become notices, so that a killed or running run can be shown.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/run/record/metrics_file.h"
#include "core/run/record/rollout_record.h"
#include "core/run/record/source_sample.h"

namespace xrun {

// The format of a run's folder, "format" in run.json. A folder without the key has format 1.
constexpr int64_t kRunFormat = 1;

// The answers of run:sample at one step, objects as in that step's file.
struct RunSamples {
  int64_t step = 0;
  std::vector<Json> answers;
};

struct RunFiles {
  std::filesystem::path dir;
  std::string name;                 // the folder's own
  Json record;                      // run.json, an object
  Json config, origins;             // objects, empty if config.json is missing
  Json ledger;                      // an object, or null
  Json profile;                     // profile.json, an object, or null
  Json checkpoint;                  // the manifest of the newest checkpoint, an object, or null
  std::string recipe;               // recipe.lua's text
  std::vector<RunSamples> samples;  // of the first and the last step that have some
  int64_t samples_left_out = 0;     // steps between these two that have some
  std::vector<RecordedRollouts> rollouts;  // of the first and the last step that have some
  std::vector<SourceSample> sources;       // empty until a caller sets it (sample_sources)
  RunMetrics metrics;
  std::vector<std::string> notices;  // missing, damaged or omitted files, one sentence each
};

// Returns the bodies done: from run.json if the run ended, else one more than the last logged step.
int64_t steps_done(const RunFiles& run);

// Reads the folder of a run. Throws UsageError if it holds no run, or one whose format is newer
// than kRunFormat; Error if run.json is damaged. Everything else that is wrong becomes a notice.
RunFiles read_run_files(const std::filesystem::path& dir);

// Reads several runs in order. Runs with the same folder name get their paths as names.
std::vector<RunFiles> read_runs(const std::vector<std::string>& dirs);

// Returns run.json of the folder `dir`, an object. Throws Error with the fix if it is damaged.
Json read_run_record(const std::filesystem::path& dir);

// Throws UsageError if `record`, the run.json of the folder `dir`, has a newer format than
// kRunFormat; Error if its format is not a whole number.
void check_run_format(const Json& record, const std::filesystem::path& dir);

// Returns a string without its quotes, any other value as JSON, "" for nullptr.
std::string value_of(const Json* value);

}  // namespace xrun

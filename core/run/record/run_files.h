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
  std::vector<RunSamples> samples;  // of the first step that has any and of the last
  int64_t samples_left_out = 0;     // steps between these two that have some
  std::vector<RecordedRollouts> rollouts;  // of the first step that has any and of the last
  std::vector<SourceSample> sources;       // empty; set by those who call sample_sources
  RunMetrics metrics;
  std::vector<std::string> notices;  // missing, damaged or omitted files, one sentence each
};

// Returns the bodies done: from run.json if the run ended, else one more than the last logged step.
int64_t steps_done(const RunFiles& run);

// Throws UsageError if the folder holds no run, or one whose format is newer than kRunFormat; Error
// if run.json is damaged. Everything else that is wrong becomes a notice.
RunFiles read_run_files(const std::filesystem::path& dir);

// Reads several runs in order. Two folders of one name are named by their paths as given.
std::vector<RunFiles> read_runs(const std::vector<std::string>& dirs);

// Returns run.json of the folder `dir`, an object. Throws Error with the fix if it is damaged.
Json read_run_record(const std::filesystem::path& dir);

// Throws UsageError if run.json of the folder `dir` is of a newer format than kRunFormat, Error if
// its format is not a whole number.
void check_run_format(const Json& record, const std::filesystem::path& dir);

// Returns a string without quotes, "" if absent, other values as JSON.
std::string value_of(const Json* value);

}  // namespace xrun

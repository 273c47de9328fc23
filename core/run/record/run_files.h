#pragma once
// The folder of a run as others read it: a report, a comparison. Nothing is locked or written, and
// what is missing or damaged is said, so that a run that was killed or still goes on can be shown.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/run/record/metrics_file.h"
#include "core/run/record/source_sample.h"

namespace xrun {

// The form of a run's folder; run.json's "format". One without the key is of the first form.
constexpr int64_t kRunFormat = 1;

// Answers that run:sample kept at one step, objects as that step's file has them.
struct RunSamples {
  int64_t step = 0;
  std::vector<Json> answers;
};

struct RunFiles {
  std::filesystem::path dir;
  std::string name;                   // the folder's own
  Json record;                        // run.json, an object
  Json config, origins;               // objects, empty if config.json is missing
  Json ledger;                        // an object, or null
  Json profile;                       // profile.json, an object, or null
  Json checkpoint;                    // the manifest of the newest checkpoint, an object, or null
  std::string recipe;                 // recipe.lua's text
  std::vector<RunSamples> samples;    // of the first step that has any and of the last
  int64_t samples_left_out = 0;       // steps between these two that have some
  std::vector<SourceSample> sources;  // not in the folder: who wants them asks sample_sources
  RunMetrics metrics;
  std::vector<std::string> notices;  // what is missing, damaged or was left out, a sentence each
};

// Whether a prompt was opened in the run: what was typed, which log.txt has, is in no recipe.
bool is_interactive(const Json& record);

// Bodies done: what run.json says of a run that ended, else one more than the last step logged.
int64_t steps_done(const RunFiles& run);

// Throws UsageError if the folder holds no run (it says what stands there), or one whose format is
// newer than kRunFormat; Error if run.json is damaged. All else goes into the notices.
RunFiles read_run_files(const std::filesystem::path& dir);

// Reads several, in their order. Of two folders with one name each is named by its path as given.
std::vector<RunFiles> read_runs(const std::vector<std::string>& dirs);

// run.json of the folder `dir`, an object. Throws Error, with a way out, if it is damaged.
Json read_run_record(const std::filesystem::path& dir);

// Throws UsageError if run.json of the folder `dir` is of a newer format than kRunFormat, Error if
// its format is no whole number.
void check_run_format(const Json& record, const std::filesystem::path& dir);

// A value as people read it: a string bare, an absent one as "", others as JSON.
std::string value_of(const Json* value);

}  // namespace xrun

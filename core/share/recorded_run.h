#pragma once
// The first steps of a run, taken into a lock and compared with those of a later run.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/bundle/bundle_lock.h"

namespace xrun {

// Returns the settings that decide the numbers of steps: all but save, stop and export.
Json deciding_settings(const Json& config);

// Returns the settings that resumes of the run changed and that may change numbers ("config.steps,
// recipe.lua:12"), or "". Steps before such a resume had other values, and later steps follow from
// them, so a new run repeats none. Throws Error if run.json is damaged.
std::string settings_changed_later(const std::filesystem::path& run);

// Returns the first `most` steps of a run, without their speed (perf/*).
//   lock         the settings and inputs that the run must have had
//   recipe_text  the recipe that it must have had
//   run_binary   the program that must have trained it, as run.json describes it
// Requires settings_changed_later(run) == "". Throws Error that says what differs, or why the run
// proves nothing (a prompt was opened in it).
LockedRun record_first_steps(const std::filesystem::path& run, const BundleLock& lock,
                             const std::string& recipe_text, const Json& run_binary, int64_t most);

// A step that differs from the recorded one.
struct StepDifference {
  int64_t step = 0;
  std::string metric;
  std::string recorded, now;  // "absent" if one lacks it
  double relative = 0;        // |a - b| / max(|a|, |b|)
};

// Compares every metric of a step but perf/* with the recorded one, bit by bit. Returns the metric
// with the largest difference, or nothing if all are equal.
std::optional<StepDifference> compare_step(const Json& recorded, const Json& now);

// Returns the fields that decide bits and differ between two machines: device, threads, cpu.
std::vector<std::string> machine_differences(const LockedRun& recorded, const Json& machine,
                                             const Json& environment);

}  // namespace xrun

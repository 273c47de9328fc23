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

// Returns what resumes of the run have changed and may change numbers ("config.steps,
// recipe.lua:12"), or "". The steps before them had other values, and those after them follow from
// these, so a new run repeats none of them. Throws Error if run.json is damaged.
std::string settings_changed_later(const std::filesystem::path& run);

// Takes the first `most` steps of a run, without the speed of steps (perf/*). `lock` has the
// recipe, the settings and the inputs that the run must have had; `recipe_text` is the recipe's.
// settings_changed_later(run) must be "".
// Throws Error that says what differs, or why the run proves nothing (a prompt was opened in it).
LockedRun record_first_steps(const std::filesystem::path& run, const BundleLock& lock,
                             const std::string& recipe_text, const Json& run_binary, int64_t most);

// A step that differs from the recorded one.
struct StepDifference {
  int64_t step = 0;
  std::string metric;
  std::string recorded, now;  // "absent" if one lacks it
  double relative = 0;        // |a - b| / max(|a|, |b|)
};

// Compares a step with the recorded one, every metric but perf/* bit by bit; returns the metric
// with the largest difference.
std::optional<StepDifference> compare_step(const Json& recorded, const Json& now);

// Returns the fields that decide bits and differ between two machines: device, threads, cpu.
std::vector<std::string> machine_differences(const LockedRun& recorded, const Json& machine,
                                             const Json& environment);

}  // namespace xrun

#pragma once
// The run that --resume continues: its folder, and the settings and machine that it began with.

#include <filesystem>
#include <string>
#include <vector>

namespace xrun {

struct ResumedRun {
  std::filesystem::path dir;
  std::vector<std::string> sets;  // its --set, in order: "key=value"; none before its run.json
  std::string device;             // "cpu" or "cuda"; "" before its run.json
  int threads = 0;                // of the CPU; 0: unknown
};

// Finds the run that --resume means.
//   recipe  the recipe's name: "dpo"
//   dir     --run; "": `own` if it exists, else the newest run of this recipe in runs/
//   own     the default folder of the recipe with the settings given; "" if these are incomplete
// Throws UsageError with the nearest run if there is none, Error if its config.json is damaged.
ResumedRun find_resumed_run(const std::string& recipe, const std::filesystem::path& dir,
                            const std::filesystem::path& own);

// Compares a recipe file's name and text with those of the run. Returns "" if either is the same
// (an edited recipe is compared later, line by line), else the notice of a resume by --force.
// Throws Error that names the run's own recipe for another recipe without `force`.
std::string compare_recipe(const std::filesystem::path& dir, const std::filesystem::path& recipe,
                           const std::string& text, bool force);

// Throws UsageError if the run's model or data is a relative path that leads nowhere from here, and
// somewhere from the working folder in which the run began. Keys that `given` sets are not checked.
void check_working_folder(const std::filesystem::path& dir, const std::vector<std::string>& given);

// Returns the settings of a run followed by those given now, which replace earlier ones of the same
// key.
std::vector<std::string> joined_sets(std::vector<std::string> of_run,
                                     const std::vector<std::string>& given);

}  // namespace xrun

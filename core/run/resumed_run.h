#pragma once
// The run that --resume continues: its folder, and the settings and machine that it began with.

#include <filesystem>
#include <string>
#include <vector>

namespace xrun {

struct ResumedRun {
  std::filesystem::path dir;
  std::vector<std::string> sets;  // its --set, "key=value", in order; none before run.json exists
  std::string device;             // "cpu" or "cuda"; "" before run.json exists
  int threads = 0;                // of the CPU; 0: unknown
};

// Returns the run that --resume means.
//   recipe  the recipe's name: "dpo"
//   dir     --run; "": `own` if it exists, else the newest run of this recipe in runs/
//   own     the default folder for the recipe and the given settings; "" if these are incomplete
// Throws UsageError with the nearest run if there is none, Error if its config.json is damaged.
ResumedRun find_resumed_run(const std::string& recipe, const std::filesystem::path& dir,
                            const std::filesystem::path& own);

// Checks that a recipe file is the recipe of the run: that its name or its text is the same (an
// edited recipe is compared later, line by line). Returns "" if so. For another recipe, returns the
// notice of a resume by --force, or throws Error that names the run's own recipe without `force`.
std::string compare_recipe(const std::filesystem::path& dir, const std::filesystem::path& recipe,
                           const std::string& text, bool force);

// Throws UsageError if a relative path of the run's model or data does not exist here but exists in
// the working folder in which the run began. Keys that `given` sets are not checked.
void check_working_folder(const std::filesystem::path& dir, const std::vector<std::string>& given);

// Returns the settings of a run, then those given now; a given one replaces an earlier one of its
// key.
std::vector<std::string> joined_sets(std::vector<std::string> of_run,
                                     const std::vector<std::string>& given);

}  // namespace xrun

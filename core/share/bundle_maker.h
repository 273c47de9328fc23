#pragma once
// Makes the bundle of a recipe: its files, its inputs' digests, its settings and, if it has run,
// its first steps. The recipe is read, not run.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/bundle/bundle_file.h"
#include "core/share/input_files.h"

namespace xrun {

struct BundleRequest {
  std::string recipe;             // the recipe's file
  std::vector<std::string> sets;  // of --set; those of `run` come first
  std::filesystem::path run;      // the run whose first steps are recorded; "": none
  bool run_given = false;         // the user named `run`: an error if it cannot be recorded
  bool with_data = false, with_model = false;
  ModelFolders models;
  Json binary;      // version and SHA-256 of the running program, for the lock
  Json run_binary;  // the running program as run.json describes it
  // Returns the schemas of the operators that recipes may call by this name; may be empty.
  std::function<std::vector<std::string>(const std::string& name)> operators;
};

struct MadeBundle {
  std::filesystem::path path;
  BundleLock lock;
  std::vector<std::string> notices;
};

constexpr int64_t kFirstSteps = 5;  // steps of a run that a bundle records at most

// Writes the bundle; `out` "" means NAME.xrb in the current folder. A run that cannot be recorded
// (it is of another recipe, other settings or other data) is a notice, or Error if the user named
// it. Throws UsageError and Error as reading the recipe and its inputs does.
MadeBundle make_bundle(const BundleRequest& request, std::filesystem::path out);

// Returns the lock that make_bundle would write, without the digests of its members. Appends the
// members and the notices.
BundleLock lock_of_recipe(const BundleRequest& request, std::vector<BundleMember>& members,
                          std::vector<std::string>& notices);

}  // namespace xrun

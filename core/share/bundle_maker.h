#pragma once
// Makes the bundle of a recipe: its files, its inputs' digests, its settings and, if it has run,
// its first steps. The recipe is read, not run.

#include <filesystem>
#include <string>
#include <vector>

#include "core/bundle/bundle_file.h"
#include "core/share/input_files.h"

namespace xrun {

struct BundleRequest {
  std::string recipe;             // the file
  std::vector<std::string> sets;  // --set; those of `run` come before them
  std::filesystem::path run;      // whose first steps are recorded; "": none
  bool run_given = false;         // by the user; a run of something else is then an error
  bool with_data = false, with_model = false;
  ModelFolders models;
  Json binary;      // of the lock: version and SHA-256 of the running program
  Json run_binary;  // the same, as run.json has it
  // Returns the schemas of the operators that recipes may call by this name; may be empty.
  std::function<std::vector<std::string>(const std::string& name)> operators;
};

struct MadeBundle {
  std::filesystem::path path;
  BundleLock lock;
  std::vector<std::string> notices;
};

// A bundle has at most this many steps of a run.
constexpr int64_t kFirstSteps = 5;

// Writes the bundle; "" for `out` is NAME.xrb in the current folder. Throws UsageError and Error as
// reading the recipe, its inputs and the run do, and Error if `request.run` is a run of another
// recipe, other settings or other data.
MadeBundle make_bundle(const BundleRequest& request, std::filesystem::path out);

// Returns the lock alone, as make_bundle would write it; adds the members that it would have.
BundleLock lock_of_recipe(const BundleRequest& request, std::vector<BundleMember>& members,
                          std::vector<std::string>& notices);

}  // namespace xrun

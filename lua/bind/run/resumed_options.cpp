// The run's --set come first and the given ones after them, so that a given one wins.

#include "lua/bind/run/resumed_options.h"

#include <thread>

#include "core/base/error.h"
#include "core/config/config_scan.h"
#include "core/config/config_set.h"
#include "core/run/resumed_run.h"
#include "core/run/run_dir.h"
#include "lua/bind/recipe_text.h"

namespace xrun {

namespace {

// The default folder of a recipe with these settings, "" if they do not make a whole config: a
// resume may find the missing ones in its run.
std::filesystem::path own_run_dir(const RecipeOptions& options) {
  try {
    RunIdentity identity;
    identity.recipe_name = recipe_name(options.recipe);
    identity.recipe_text = read_recipe(options);
    const ScannedRecipe text = scan_recipe_of(options, identity.recipe_text);
    identity.config = Config::resolve(text, options.sets).values();
    return default_run_dir(identity);
  } catch (const Error&) {
    return {};  // an error of the recipe itself is reported when it is loaded
  }
}

// Returns the notice of a resume by another recipe, "" for the run's own. Throws Error without
// --force.
std::string other_recipe_notice(const std::filesystem::path& dir, const RecipeOptions& options) {
  std::string text;
  try {
    text = read_recipe(options);
  } catch (const Error&) {
    return "";  // an error of the recipe itself is reported when it is loaded
  }
  return compare_recipe(dir, options.recipe, text, options.force);
}

// Returns the settings of a run that the recipe still takes. An edited recipe may have lost a key:
// without --force that is an error, since the run would train something else.
std::vector<std::string> sets_of_run(const ResumedRun& run, RecipeOptions& options) {
  if (run.sets.empty()) return {};
  ScannedRecipe recipe;
  try {
    recipe = scan_recipe_of(options, read_recipe(options));
  } catch (const Error&) {
    return run.sets;  // an error of the recipe itself is reported when it is loaded
  }
  std::vector<std::string> taken;
  for (const std::string& set : run.sets) {
    Literal before = recipe.config;  // a refused setting may leave a part of its path behind
    try {
      apply_set(recipe, recipe.config, set);
      taken.push_back(set);
    } catch (const UsageError& error) {
      recipe.config = std::move(before);
      if (!options.force) {
        throw UsageError(fmt::format(
            "{0}: cannot resume: the run began with a setting that the recipe no longer takes: "
            "{1}; restore the key ({0}/recipe.lua is the recipe as it was), or add --force to "
            "resume without the setting",
            run.dir.string(), error.what()));
      }
      options.notices.push_back(fmt::format(
          "resuming by --force: a setting of the run is left out, since the recipe no longer takes "
          "it: {}",
          error.what()));
    }
  }
  return taken;
}

}  // namespace

ResumedRun resumed_run(const RecipeOptions& options) {
  const bool named = !options.run_dir.empty();
  return find_resumed_run(recipe_name(options.recipe), options.run_dir,
                          named ? std::filesystem::path() : own_run_dir(options));
}

RecipeOptions resumed_options(RecipeOptions options) {
  if (!options.resume) return options;
  const ResumedRun run = resumed_run(options);
  if (std::string notice = other_recipe_notice(run.dir, options); !notice.empty()) {
    options.notices.push_back(std::move(notice));
  }
  check_working_folder(run.dir, options.sets);
  options.run_dir = run.dir.string();
  options.sets = joined_sets(sets_of_run(run, options), options.sets);
  if (!options.device_given && !run.device.empty()) options.device = run.device;
  if (options.threads == 0 && run.threads > 0) {
    options.threads = run.threads;
    const auto cores = static_cast<int>(std::thread::hardware_concurrency());
    if (cores > 0 && run.threads > cores) {
      options.notices.push_back(fmt::format(
          "the run computes with {} threads, and this machine runs {} at once; --threads {} may "
          "be faster, but the last digits may then differ",
          run.threads, cores, cores));
    }
  }
  return options;
}

}  // namespace xrun

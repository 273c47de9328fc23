// xrun cache RECIPE.lua: builds the caches of a recipe's data and says where they are: a folder a
// source on standard output, the ledger on standard error.

#include "lua/bind/session.h"
#include "tools/commands/command_line.h"
#include "tools/commands/engine/engine_commands.h"
#include "tools/commands/engine/recipe_arguments.h"

namespace xrun {

int command_cache_recipe(int argc, char** argv) {
  RecipeOptions options;
  options.purpose = RecipePurpose::kCache;
  bool json = false;
  CLI::App app("Builds the caches of the data that a recipe opens, up to its xrun.run.",
               "xrun cache");
  add_recipe_arguments(app, options);
  app.add_flag("--json", json, "one object a source: name, dir, rows, kept, dropped, tokens");
  if (const auto status = parse_command_line(app, argc, argv)) return *status;
  warn_of_threads(options.threads);
  options.json = json;
  return run_session(options);
}

}  // namespace xrun

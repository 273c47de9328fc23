// xrun RECIPE.lua: runs a recipe.

#include "lua/bind/session.h"
#include "tools/commands/command_line.h"
#include "tools/commands/engine/cuda_plugin.h"
#include "tools/commands/engine/engine_commands.h"
#include "tools/commands/engine/recipe_arguments.h"
#include "tools/commands/engine/recipe_prompt.h"

namespace xrun {

int command_recipe(int argc, char** argv) {
  RecipeOptions options;
  CLI::App app("Runs a recipe: data, an objective and a loop, written in Lua.", "xrun");
  add_recipe_arguments(app, options);
  app.add_flag("--resume", options.resume, "go on from the newest checkpoint of the run's folder");
  app.add_flag("--force", options.force, "resume although recipe, data or binary changed");
  app.add_option("--steps", options.steps, "stop after so many steps; schedules stay as they are")
      ->check(whole_number(1));
  app.add_flag("--jit", options.jit, "compile Lua; a loop of Lua can then not be interrupted");
  app.add_flag("--profile", options.profile,
               "write time and bytes by line of the recipe into the run's profile.json");
  app.add_option(
         "--repl-at", options.repl_at,
         "open the prompt of xrun repl before this step, and go on when it is left; SIGUSR1 "
         "opens it after the step that runs")
      ->check(whole_number(0));
  if (const auto status = parse_command_line(app, argc, argv)) return *status;
  if (options.device == "cuda") load_cuda_plugin();
  warn_of_threads(options.threads);
  return run_session(options, visit_at_prompt);
}

}  // namespace xrun

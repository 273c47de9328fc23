#include "tools/commands/engine/recipe_arguments.h"

#include "tools/commands/recipe_options.h"

namespace xrun {

void add_recipe_arguments(CLI::App& app, RecipeOptions& options) {
  add_recipe_options(
      app, {options.recipe, options.sets, options.run_dir, options.device, options.threads});
}

}  // namespace xrun

#include "tools/commands/engine/recipe_arguments.h"

namespace xrun {

void add_recipe_arguments(CLI::App& app, RecipeOptions& options) {
  app.add_option("RECIPE", options.recipe, "the recipe, a Lua file")->required();
  app.add_option("--set", options.sets,
                 "a config key: beta=0.2, data.1.path=pairs.jsonl; a Lua literal or bare text")
      ->allow_extra_args(false)
      ->type_name("KEY=VALUE");
  app.add_option("--run", options.run_dir, "the run's folder (runs/<recipe>-<hash>)");
  app.add_option("--device", options.device, "cpu or cuda")->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--threads", options.threads, "threads of the CPU (all)")
      ->check(CLI::PositiveNumber);
}

}  // namespace xrun

// One declaration of the options that every command over a recipe takes.

#include "tools/commands/engine/recipe_arguments.h"

#include <fmt/core.h>

#include "tools/commands/command_line.h"

namespace xrun {

namespace {

std::string check_device(const std::string& device) {
  if (device == "cpu" || device == "cuda") return "";
  return fmt::format("got {}, wanted cpu or cuda", device);
}

}  // namespace

void add_recipe_arguments(CLI::App& app, RecipeOptions& options) {
  app.add_option("RECIPE", options.recipe, "the recipe, a Lua file")->required();
  app.add_option("--set", options.sets,
                 "a config key: beta=0.2, data.1.path=pairs.jsonl; a Lua literal or bare text")
      ->allow_extra_args(false)
      ->type_name("KEY=VALUE");
  app.add_option("--run", options.run_dir, "the run's folder (runs/<recipe>-<hash>)");
  app.add_option("--device", options.device,
                 "where the recipe's model trains: cpu, or cuda for one GPU (cpu)")
      ->check(CLI::Validator(check_device, "", "device"));
  app.add_option("--threads", options.threads, "threads of the CPU (all)")->check(thread_count());
}

}  // namespace xrun

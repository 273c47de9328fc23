// One declaration of the options of a recipe, for its commands and for xrun explain.

#include "tools/commands/engine/recipe_arguments.h"

#include <fmt/core.h>

#include <filesystem>

#include "core/base/file.h"
#include "core/console/terminal/shown_text.h"
#include "lua/bind/run/resumed_options.h"
#include "tools/commands/command_line.h"
#include "tools/commands/engine/bundle_arguments.h"
#include "tools/commands/trust_arguments.h"

namespace xrun {

namespace {

std::string check_device(const std::string& device) {
  if (device == "cpu" || device == "cuda") return "";
  return fmt::format("got {}, wanted cpu or cuda", device);
}

}  // namespace

void add_recipe_arguments(CLI::App& app, RecipeOptions& options) {
  app.add_option("RECIPE", options.recipe, "the recipe, a Lua file or a bundle")->required();
  app.add_option("--set", options.sets,
                 "a config key: beta=0.2, data.1.path=pairs.jsonl; a Lua literal or bare text")
      ->allow_extra_args(false)
      ->type_name("KEY=VALUE");
  app.add_option("--run", options.run_dir,
                 "a run's folder; its settings, device and threads are taken")
      ->type_name("DIR")
      ->check(folder_name());
  app.add_option("--device", options.device,
                 "where the recipe's model trains: cpu, or cuda for one GPU (cpu)")
      ->type_name("cpu|cuda")
      ->check(CLI::Validator(check_device, "", "device"));
  app.add_option("--threads", options.threads, "threads of the CPU (all)")->check(thread_count());
}

void add_run_arguments(CLI::App& app, RecipeOptions& options, std::optional<int64_t>& repl_at) {
  add_recipe_arguments(app, options);
  add_trust_arguments(app);
  app.get_option("--run")->description("the run's folder (runs/<recipe>-<hash>)");
  app.add_flag("--resume", options.resume,
               "continue a run with its own settings, device and threads: the one in --run, or the "
               "recipe's newest");
  app.add_flag("--force", options.force,
               "resume, or run a bundle, although recipe, data or binary changed");
  app.add_option("--steps", options.steps, "stop after this many steps; schedules do not change")
      ->check(whole_number(1));
  app.add_flag("--jit", options.jit, "compile Lua; Ctrl-C then cannot stop a Lua loop");
  app.add_flag("--profile", options.profile,
               "write time and bytes by line of the recipe into the run's profile.json");
  app.add_option(
         "--repl-at", repl_at,
         "open the prompt of xrun repl before this step, and continue when it is left; SIGUSR1 "
         "opens it after the current step")
      ->check(whole_number(0));
}

RecipeOptions preview_options(const CLI::App& app, RecipeOptions options) {
  options.device_given = options.device_given || app.count("--device") > 0;
  const std::filesystem::path dir = options.run_dir;
  options.resume = !options.recipe.empty() && !dir.empty() && is_file(dir / "run.json");
  options = bundled_options(std::move(options), true);
  options = from_option([&] { return resumed_options(options); });
  if (options.resume) {
    fmt::print(stderr, "{}: taking the settings of this run\n", shown_text(dir.string()));
  }
  options.resume = false;
  return options;
}

}  // namespace xrun

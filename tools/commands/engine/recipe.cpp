// xrun RECIPE.lua runs a recipe to its end; xrun cache RECIPE.lua runs it up to its xrun.run and
// builds the caches of its data. --repl-at and SIGUSR1 open a prompt inside a run.

#include <fmt/core.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "core/console/terminal/shown_text.h"
#include "lua/bind/run/resumed_options.h"
#include "lua/bind/run/run_loop.h"
#include "lua/bind/run/run_session.h"
#include "lua/prompt/prompt.h"
#include "lua/prompt/prompt_verbs.h"
#include "tools/commands/command_line.h"
#include "tools/commands/engine/bundle_arguments.h"
#include "tools/commands/engine/cuda_plugin.h"
#include "tools/commands/engine/engine_commands.h"
#include "tools/commands/engine/rank_run.h"
#include "tools/commands/engine/recipe_arguments.h"
#include "tools/commands/trust_arguments.h"

namespace xrun {

namespace {

// Returns true if this process is in the background, where reading from the terminal would stop it.
bool in_background() {
  const pid_t foreground = ::tcgetpgrp(STDIN_FILENO);
  // -1: standard input is not a terminal.
  return foreground >= 0 && foreground != ::getpgrp();
}

// Opens the prompt at the recipe's pause and returns when the user leaves it. Standard input that
// is not a terminal is a script of inputs. Marks the run as interactive, and logs what is typed.
void open_prompt(PauseHooks& hooks) {
  Recipe& recipe = hooks.recipe();
  Session& session = hooks.session();
  Console& console = *session.console;
  const int64_t step = hooks.pause()->step;
  const bool interactive = ::isatty(STDIN_FILENO) != 0;
  if (interactive && in_background()) {
    console.print_raw(
        fmt::format("step {}: cannot open a prompt in the background; bring xrun to the "
                    "foreground (fg), then send the signal again",
                    step));
    return;
  }
  const auto paused = std::make_shared<PausedRun>(hooks);
  Prompt prompt(recipe.state(), session.console);
  add_step_verbs(prompt, paused);
  RunDir& dir = session.run->run().dir();
  dir.record().set("interactive", true);
  dir.write_record();
  paused->note("opened");
  const std::string where = fmt::format(
      "{} is paused before step {}\ncontinue() or Ctrl-D resumes it; run:stop(), then "
      "Ctrl-D, ends the run here",
      recipe.context().options.recipe, step);
  if (interactive) {
    run_prompt(prompt, console.dim(shown_text(where)));
    // The user may have meant `exit` for the run.
    if (!paused->done())
      console.print_raw(console.dim("the run continues; Ctrl-C saves and stops it"));
  } else {
    console.print_escaped(where);
    run_script(prompt, STDIN_FILENO, "stdin");
  }
  paused->note("left");
}

}  // namespace

int command_recipe(int argc, char** argv) {
  RecipeOptions options;
  std::optional<int64_t> repl_at;
  CLI::App app("Runs a recipe: data, an objective and a loop, written in Lua.", "xrun");
  add_run_arguments(app, options, repl_at);
  if (const auto status = parse_command_line(app, argc, argv)) return *status;
  warn_of_threads(options.threads);
  // resumed_options() keeps the run's device unless one is given.
  options.device_given = app.count("--device") > 0;
  const std::unique_ptr<Ranks> ranks = join_run();
  if (ranks != nullptr && repl_at) {
    throw UsageError(
        "--repl-at opens a prompt in a single process; start the recipe without ranks");
  }
  options.ranks = ranks.get();
  return run_on_ranks(ranks.get(), [&] {
    options = resumed_options(bundled_options(std::move(options), options.force));
    if (options.device == "cuda") {
      choose_gpu_of_rank();
      load_cuda_plugin(!options.device_given);
    }
    // A prompt on one rank would leave the others waiting.
    if (ranks != nullptr) return run_session(options);
    return run_with_prompt(options, repl_at, open_prompt);
  });
}

// Prints a folder per source on standard output and the ledger on standard error.
int command_cache_recipe(int argc, char** argv) {
  RecipeOptions options;
  options.purpose = RecipePurpose::kCache;
  bool json = false;
  CLI::App app("Builds the caches of the data that a recipe opens, up to its xrun.run.",
               "xrun cache");
  add_recipe_arguments(app, options);
  add_trust_arguments(app);
  app.add_flag("--json", json,
               "one JSON object per source: name, dir, rows, kept, dropped, tokens");
  if (const auto status = parse_command_line(app, argc, argv)) return *status;
  warn_of_threads(options.threads);
  options.json = json;
  return run_session(preview_options(app, std::move(options)));
}

}  // namespace xrun

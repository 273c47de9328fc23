// xrun repl: a prompt.

#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>

#include "lua/bind/modules.h"
#include "lua/bind/prompt_loop.h"
#include "lua/bind/session.h"
#include "tools/commands/command_line.h"
#include "tools/commands/engine/cuda_plugin.h"
#include "tools/commands/engine/engine_commands.h"
#include "tools/commands/engine/recipe_arguments.h"

namespace xrun {

namespace {

std::shared_ptr<Console> standard_console() {
  return std::make_shared<Console>(
      [](std::string_view text) {
        std::fwrite(text.data(), 1, text.size(), stdout);
        std::fflush(stdout);
      },
      console_traits(STDOUT_FILENO));
}

}  // namespace

int command_repl(int argc, char** argv) {
  RecipeOptions options;
  CLI::App app(
      "Gives a prompt: Lua with tensors, models, tokenizers and data. Standard input that is no "
      "terminal is a script; its status is 1 if an input failed.",
      "xrun repl");
  add_recipe_arguments(app, options);
  app.get_option("RECIPE")->required(false);
  if (const auto status = parse_command_line(app, argc, argv)) return *status;
  if (options.device == "cuda") load_cuda_plugin();
  warn_of_threads(options.threads);
  set_up_torch(options.threads);
  Recipe recipe(options, engine_modules());
  Session& session = session_of(recipe.state());
  session.console = standard_console();
  Prompt prompt(recipe.state(), session.console);
  recipe.state().push_module(recipe.state());
  prompt.assign("xrun");
  if (::isatty(STDIN_FILENO) == 0) return run_script(prompt, STDIN_FILENO, "stdin") ? 1 : 0;
  run_prompt(prompt, session.console->dim("xrun: :help lists commands, Tab "
                                          "completes, Ctrl-D leaves"));
  return 0;
}

}  // namespace xrun

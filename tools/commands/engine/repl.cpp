// xrun repl: a prompt, alone or over a recipe that is paused at its loop.

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cstdio>

#include "core/console/terminal/table.h"
#include "lua/prompt/preview.h"
#include "lua/prompt/prompt.h"
#include "lua/prompt/prompt_verbs.h"
#include "tools/commands/command_line.h"
#include "tools/commands/engine/cuda_plugin.h"
#include "tools/commands/engine/engine_commands.h"
#include "tools/commands/engine/recipe_arguments.h"
#include "tools/commands/trust_arguments.h"

namespace xrun {

namespace {

// "recipes/dpo.lua is paused at line 31, before step 0. Names you can use: adamw, cfg, ..."
std::string where_text(Preview& preview, int width) {
  const std::string& recipe = preview.recipe().context().options.recipe;
  const FrameNames seen = preview.names();
  std::vector<std::string> names;
  for (const FrameName& name : seen.names()) names.push_back(name.name);
  std::string text;
  if (preview.error() != nullptr) {
    text = preview.error()->text() + "\n" + recipe + " stopped there";
  } else if (preview.pause() == nullptr) {
    text = preview.no_loop_text() + "\n" + recipe + " has ended";
  } else {
    text = fmt::format("{} is paused at line {}, before step {}", recipe, seen.line(),
                       preview.pause()->step);
  }
  text += names.empty() ? ". No names are defined yet."
                        : fmt::format(". Names you can use: {}", fmt::join(names, ", "));
  // Only the last line, with the names, may be too long for the terminal.
  const size_t line = text.rfind('\n') + 1;
  const auto lines = broken_lines(text.substr(line), width);
  return text.substr(0, line) + fmt::format("{}", fmt::join(lines, "\n"));
}

}  // namespace

int command_repl(int argc, char** argv) {
  RecipeOptions options;
  CLI::App app(
      "Opens a Lua prompt with tensors, models, tokenizers and data. A recipe runs up to its loop, "
      "and its locals are in scope at the prompt. Standard input is run as a script if it is not a "
      "terminal; the exit status is 1 if one of its inputs failed, 2 if the recipe's "
      "configuration is wrong.",
      "xrun repl");
  add_recipe_arguments(app, options);
  add_trust_arguments(app);
  app.get_option("RECIPE")->required(false);
  if (const auto status = parse_command_line(app, argc, argv)) return *status;
  options = preview_options(app, std::move(options));
  if (options.device == "cuda") load_cuda_plugin();
  warn_of_threads(options.threads);
  const bool typed = ::isatty(STDIN_FILENO) != 0;
  const bool bare = options.recipe.empty();
  const auto console = console_on(stdout);
  // For a script, standard output has nothing but its values.
  const auto talk = typed ? console : console_on(stderr);
  const std::unique_ptr<Preview> preview = open_preview(options, talk);
  Prompt prompt(preview->state(), console);
  const auto paused = bare ? nullptr : std::make_shared<PausedRun>(preview->hooks());
  if (!bare) {
    add_step_verbs(prompt, paused, [&] { return paused->reload(); });
  } else {
    register_verb_docs(preview->state());
  }
  // A recipe's own `xrun` stays.
  if (!prompt.push_name("xrun")) {
    preview->state().push_module(preview->state());
    prompt.assign("xrun");
  }
  if (!bare) talk->print_escaped(where_text(*preview, talk->traits().width));
  if (!typed) {
    const bool failed = run_script(prompt, STDIN_FILENO, "stdin");
    if (preview->error() != nullptr && preview->error()->usage) return 2;
    // A recipe that failed counts too.
    return failed || preview->error() != nullptr ? 1 : 0;
  }
  run_prompt(prompt, console->dim("xrun: :help lists commands, Tab completes, Ctrl-D leaves"));
  return 0;
}

}  // namespace xrun

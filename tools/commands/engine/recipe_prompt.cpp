#include "tools/commands/engine/recipe_prompt.h"

#include <fmt/core.h>
#include <unistd.h>

#include "core/console/terminal/shown_text.h"
#include "lua/prompt/prompt_loop.h"
#include "lua/prompt/prompt_verbs.h"

namespace xrun {

namespace {

// Reading from its terminal would stop it.
bool in_background() {
  const pid_t foreground = ::tcgetpgrp(STDIN_FILENO);
  return foreground >= 0 && foreground != ::getpgrp();
}

}  // namespace

void visit_at_prompt(Recipe& recipe) {
  Session& session = session_of(recipe.state());
  Console& console = *session.console;
  const int64_t step = recipe.pause()->step;
  const bool typed = ::isatty(STDIN_FILENO) != 0;
  if (typed && in_background()) {
    console.print(
        fmt::format("step {}: no prompt: xrun runs in the background; bring it to the "
                    "foreground (fg), then send the signal again",
                    step));
    return;
  }
  const auto stepper = std::make_shared<Stepper>(recipe);
  Prompt prompt(recipe.state(), session.console);
  add_step_verbs(prompt, stepper);
  stepper->note("opened", false);
  const std::string where = fmt::format("{} is paused before step {}; continue() or Ctrl-D goes on",
                                        recipe.context().options.recipe, step);
  if (typed) {
    run_prompt(prompt, console.dim(shown_text(where)));
  } else {
    console.say(where);
    run_script(prompt, STDIN_FILENO, "stdin");
  }
  stepper->note("left", false);
}

}  // namespace xrun

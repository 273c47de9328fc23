#pragma once
// The prompt inside a running recipe: --repl-at and SIGUSR1.

#include "lua/bind/recipe.h"

namespace xrun {

// Opens the prompt at the recipe's pause and returns when it is left; standard input that is no
// terminal is a script of inputs. A process in the background of its terminal gets none, which is
// said. What is typed stands in the run's log.
void visit_at_prompt(Recipe& recipe);

}  // namespace xrun

#pragma once
// The verbs of a prompt over a paused recipe: step, again, batch, continue, rows, compare,
// gradcheck; and the commands :batch and :reload.

#include <functional>
#include <lua.hpp>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "lua/prompt/paused_run.h"
#include "lua/prompt/prompt.h"

namespace xrun {

// Registers every doc string: of the bindings, the prompt's verbs and its commands.
void register_docs();

// Registers the doc strings of the verbs, so that a prompt without a recipe explains their names.
void register_verb_docs(lua_State* L);

struct PromptVerb {
  const char* name;
  std::vector<LuaParameter> parameters;
  std::vector<LuaResult> results;
  const char* doc;
  lua_CFunction function;
};

// Adds the verbs to a prompt over a paused run, makes the names of the paused frame visible there,
// and writes inputs into the run's log. Calling a verb after the paused run is gone is an error.
//   reload  begins the recipe again from its file and pauses at the same step; empty: no :reload
void add_step_verbs(Prompt& prompt, const std::shared_ptr<PausedRun>& paused,
                    std::function<std::string()> reload = {});

// compare and gradcheck (objective_verbs.cpp), and rows (rows_verb.cpp).
std::span<const PromptVerb> objective_verbs();
PromptVerb rows_verb();

// Makes `text` the printed form of the table on top of the stack.
void show_as(lua_State* L, std::string text);

// Returns the first name that the recipe's text passes to an optimizer's step from a line on, as in
// `adamw:step(batch, dpo)` or, for the first set, `adamw:step({ { prefs, dpo }, { chats, nll } })`;
// "" if it passes none. Comments and strings do not count.
std::string objective_name(std::string_view recipe_text, int from_line = 1);

// Pushes the objective of the paused loop's last step or, before the first step, the one that the
// recipe's text names after the loop's line. If the objective has a name, pushes the function that
// the name holds now. `name` gets the name. Throws Error if there is neither.
void push_objective(lua_State* L, PausedRun& paused, std::string* name);

// Returns the paused run of a state. Throws Error if no recipe is paused at a prompt.
PausedRun& paused_run_of(lua_State* L);

}  // namespace xrun

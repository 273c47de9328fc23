#pragma once
// Finds the objective that a recipe trains, for a verb without one.

#include <lua.hpp>
#include <string>
#include <string_view>

namespace xrun {

class PausedRun;

// The name that a recipe's text gives its optimizer's step first from a line on, as in
// `adamw:step(batch, dpo)` or, of the first set, `adamw:step({ { prefs, dpo }, { chats, nll } })`;
// "" if it gives none. Comments and strings do not count.
std::string objective_name(std::string_view recipe_text, int from_line = 1);

// Pushes the objective of the paused loop's last step, or, before one, that which the text gives
// from the loop on: what its name holds now, or the very function where it has none. `name` gets
// the name. Throws Error if there is neither.
void push_objective(lua_State* L, PausedRun& paused, std::string* name);

// The paused run of a state. Throws Error if no recipe is paused at a prompt.
PausedRun& paused_run_of(lua_State* L);

}  // namespace xrun

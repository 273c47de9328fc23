#pragma once
// The objective that a recipe trains, found for a verb that was not given one.

#include <lua.hpp>
#include <string>
#include <string_view>

namespace xrun {

class Stepper;

// The name that a recipe's text gives its optimizer's step first, as in `adamw:step(batch, dpo)`;
// "" if it gives none.
std::string objective_name(std::string_view recipe_text);

// Pushes the function that the name holds now, else the one that the last step was given; `name`
// gets the name. Throws Error if there is neither.
void push_objective(lua_State* L, Stepper& stepper, std::string* name);

// The stepper of a state. Throws Error if no recipe is paused at a prompt.
Stepper& stepper_of(lua_State* L);

}  // namespace xrun

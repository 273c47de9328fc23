#pragma once
// run:choices: accuracy on multiple-choice questions.

#include <lua.hpp>

#include "core/train/step.h"
#include "lua/bind/data_handle.h"

namespace xrun {

class Policy;

// Returns accuracy, accuracy_mean and accuracy_byte over the questions of a set that xrun.choices
// opened; nothing for an empty set and in a dry run. A choice is encoded alone and scored behind
// its prompt as rendered; of equal scores the first counts. Throws Error that names the row of a
// question longer than the model's limit, and one for a set without choices.
Metrics measure_choices(lua_State* L, Policy& policy, const DataHandle& data);

}  // namespace xrun

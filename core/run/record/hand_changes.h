#pragma once
// What was changed at a prompt while a run trained, as its run.json has it.

#include <string>

#include "core/base/json.h"

namespace xrun {

// "at step 3", "at steps 3, 7"; "at a step" where run.json does not say which; "" of a run that
// nobody changed. A change holds from its step on, until the process ends.
std::string hand_changes_text(const Json& record);

}  // namespace xrun

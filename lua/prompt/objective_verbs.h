#pragma once
// The verbs compare, gradcheck and rows: objectives on the batch in hand.

#include <span>

#include "lua/prompt/prompt_verbs.h"

namespace xrun {

// The verbs, in the order of :help; prompt_verbs.h adds them to a prompt.
std::span<const PromptVerb> objective_verbs();

}  // namespace xrun

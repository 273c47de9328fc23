#pragma once
// compare and gradcheck: what two objectives, or one and its differences, say of the batch in hand.

#include <span>

#include "lua/prompt/prompt_verbs.h"

namespace xrun {

// Both verbs; prompt_verbs.h adds them with the others.
std::span<const PromptVerb> objective_verbs();

}  // namespace xrun

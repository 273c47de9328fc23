#pragma once
// rows: the rows of a batch or a set that an objective sets apart.

#include "lua/prompt/prompt_verbs.h"

namespace xrun {

// The verb; prompt_verbs.h adds it with the others.
extern const PromptVerb kRowsVerb;

}  // namespace xrun

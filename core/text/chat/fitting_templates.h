#pragma once
// The built-in templates that fit a tokenizer, for messages about one that does not.

#include <string>
#include <vector>

#include "core/text/tokenizer/tokenizer.h"

namespace xrun {

// Returns the names of the built-in templates that end a trained turn with a special token of the
// tokenizer, where sampling can stop, in alphabetical order. Renders each of them.
std::vector<std::string> fitting_templates(const Tokenizer& tokenizer);

}  // namespace xrun

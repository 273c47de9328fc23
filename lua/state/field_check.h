#pragma once
// Tables that a recipe gives to a function directly, checked by the configuration's own fields.

#include <string>

#include "core/base/json.h"

namespace xrun {

// Checks a value that would stand at `path` of the configuration ("data", "optim"), and all in it:
// names, types, ranges, what is required. Throws Error "data.1.weight: got -1, wanted a number
// above 0", with did-you-mean for a name.
void check_fields(const Json& value, const std::string& path);

// The same for the table of run:steps: batch, with steps and epochs beside it.
void check_batch_fields(const Json& batch);

}  // namespace xrun

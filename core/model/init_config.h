#pragma once
// The config.json of a new model.

#include "core/base/json.h"

namespace xrun {

struct InitOptions;  // core/model/init_model.h

// Returns it in the keys of the options' family. Throws Error if an id lies outside the vocabulary
// or nothing is known of the family.
Json init_config(const InitOptions& options);

}  // namespace xrun

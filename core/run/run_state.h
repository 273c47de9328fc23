#pragma once
// run.state as a checkpoint holds it: JSON, which has no NaN and no infinities of its own.

#include "core/base/json.h"

namespace xrun {

// Returns the value with every NaN and infinity written as {"$number": "nan" | "inf" | "-inf"}.
Json encode_state(const Json& state);

// The inverse.
Json decode_state(const Json& encoded);

}  // namespace xrun

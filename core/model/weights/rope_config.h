#pragma once
// Rotary positions of a config.json, in the keys of transformers 4 and 5.

#include <cstdint>

#include "core/model/ops/rope.h"
#include "core/model/weights/config_reader.h"

namespace xrun {

// Returns the rotary settings of a config.json. Throws Error that names the key if a value is
// missing or contradictory.
//   max_length, head_dim  of the model
RopeConfig read_rope(const ConfigReader& reader, int64_t max_length, int64_t head_dim);

}  // namespace xrun

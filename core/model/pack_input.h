#pragma once
// Checks the pack passed to a forward.

#include "core/model/model.h"

namespace xrun {

// Throws Error unless shapes and types fit each other, cu_seqlens and parent describe a layout, and
// every token and learned position is one that the model has.
void check_pack_input(const PackInput& input, const ModelConfig& config);

// Returns the number of leading tokens whose keys the caller holds, 0 without such keys. Throws
// Error if the keys belong to another model or are more than the pack has tokens.
int64_t held_tokens(const PackInput& input, const ModelConfig& config,
                    const ForwardOptions& options);

}  // namespace xrun

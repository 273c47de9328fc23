#pragma once
// Checks the pack passed to a forward.

#include "core/model/model.h"

namespace xrun {

// Throws Error unless shapes and types fit each other, cu_seqlens and parent describe a layout, and
// the model has every token and, with learned positions, every position.
void check_pack_input(const PackInput& input, const ModelConfig& config);

// Returns the number of leading tokens of the pack whose keys are in options.held; 0 if it is null.
// Throws Error if it has another number of layers than the model or more tokens than the pack.
int64_t held_tokens(const PackInput& input, const ModelConfig& config,
                    const ForwardOptions& options);

}  // namespace xrun

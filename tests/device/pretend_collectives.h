#pragma once
// Collectives of the pretended device, in place of NCCL: the process group of a GPU's tensors finds
// them by the name under which the CUDA plug-in offers NCCL.

#include <cstdint>

namespace xrun {

// Returns how many groups have been aborted since the program began.
int64_t aborted_groups();

// Returns how many streams stand in a collective now.
int64_t waiting_streams();

}  // namespace xrun

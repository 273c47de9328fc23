#pragma once
// The memory of this process as the system counts it.

#include <cstdint>

namespace xrun {

// Bytes that lie in memory now; 0 where the system does not say.
int64_t resident_bytes();
// The most that ever did.
int64_t peak_resident_bytes();

}  // namespace xrun

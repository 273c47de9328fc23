#pragma once
// Measures how fast ranks on this machine exchange tensors.

#include <cstdint>

namespace xrun {

// Returns the bytes/s that each of `ranks` ranks sends while all of them exchange buckets
// (all-to-all) over Gloo and the loopback interface. The ranks are threads of this process. Takes
// about 0.2 s. Throws c10::Error if they cannot connect.
double time_loopback(int64_t ranks);

}  // namespace xrun

#pragma once
// The rate at which processes of this machine exchange tensors.

#include <cstdint>

namespace xrun {

// Returns the bytes/s that each of `ranks` ranks sends to the others in all-to-alls of buckets over
// Gloo and the loopback interface, all at the same time; the ranks are threads of this process.
// Takes about 0.2 s. Throws c10::Error if they cannot connect.
double time_loopback(int64_t ranks);

}  // namespace xrun

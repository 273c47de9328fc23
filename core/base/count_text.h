#pragma once
// Counts as people read them.

#include <cstdint>
#include <string>

namespace xrun {

// Returns 12345 as "12,345".
std::string count_text(int64_t value);
// "512 KB", "1.6 GB" (powers of 1000).
std::string format_bytes(double bytes);

}  // namespace xrun

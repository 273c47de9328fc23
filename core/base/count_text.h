#pragma once
// Counts as people read them.

#include <cstdint>
#include <string>

namespace xrun {

// Returns 12345 as "12,345".
std::string count_text(int64_t value);

}  // namespace xrun

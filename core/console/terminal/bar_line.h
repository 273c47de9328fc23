#pragma once
// A histogram in one line of text.

#include <cstdint>
#include <span>
#include <string>

namespace xrun {

// One block character a count, its height in eighths of the largest count; a blank for 0, and the
// lowest block for what is small but there.
std::string bar_line(std::span<const int64_t> counts);

}  // namespace xrun

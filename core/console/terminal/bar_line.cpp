#include "core/console/terminal/bar_line.h"

#include <algorithm>
#include <array>

namespace xrun {

std::string bar_line(std::span<const int64_t> counts) {
  constexpr std::array kBars = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  int64_t most = 1;
  for (const int64_t count : counts) most = std::max(most, count);
  std::string out;
  for (const int64_t count : counts) {
    const auto eighth = static_cast<size_t>(
        static_cast<double>(count) / static_cast<double>(most) * (kBars.size() - 1) + 0.5);
    out += count <= 0 ? " " : kBars[std::min(eighth, kBars.size() - 1)];
  }
  return out;
}

}  // namespace xrun

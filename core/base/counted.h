#pragma once
// Counts with their noun.

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/count_text.h"

namespace xrun {

// "1 pair", "1,024 tokens".
inline std::string counted(int64_t count, std::string_view noun) {
  return count_text(count) + " " + std::string(noun) + (count == 1 ? "" : "s");
}

}  // namespace xrun

#pragma once
// Counts with their noun.

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/count_text.h"

namespace xrun {

// "1 pair", "1,024 tokens"; `ending` makes a noun several ("2 micro-batches").
inline std::string counted(int64_t count, std::string_view noun, std::string_view ending = "s") {
  return count_text(count) + " " + std::string(noun) + std::string(count == 1 ? "" : ending);
}

}  // namespace xrun

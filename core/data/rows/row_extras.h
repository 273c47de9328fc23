#pragma once
// What a row of any kind has beside its text.

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/json.h"

namespace xrun {

struct RowExtras {
  uint64_t prompt_hash = 0;        // equal for equal prompts
  float weight = 1;                // loss weight of the row, >= 0
  std::vector<Json> kept;          // numbers, strings, null if absent; in the order of keep
  std::vector<std::string> notes;  // what was recognised or ignored, for the ledger
};

}  // namespace xrun

#pragma once
// Sequences of token ids that share their prompts.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace xrun {

// Returns a prompt of `prompt` times the id `kind`, below 1000, then `rest` ids that no other
// sequence has.
inline std::vector<int32_t> prompted_sequence(int32_t kind, size_t prompt, size_t rest) {
  static int32_t next = 1000;
  std::vector<int32_t> ids(prompt, kind);
  for (size_t i = 0; i < rest; ++i) ids.push_back(next++);
  return ids;
}

}  // namespace xrun

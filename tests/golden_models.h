#pragma once
// Names of the tiny checkpoints in tests/golden/models.

#include <initializer_list>
#include <string>
#include <vector>

namespace xrun {

// Returns one checkpoint per architecture, those whose blocks compute something different, and
// `also`.
inline std::vector<std::string> golden_models(std::initializer_list<const char*> also = {}) {
  std::vector<std::string> names = {"tied_gqa", "qwen2_window", "qwen3",
                                    "olmo2",    "gpt2",         "qwen3_moe"};
  names.insert(names.end(), also.begin(), also.end());
  return names;
}

}  // namespace xrun

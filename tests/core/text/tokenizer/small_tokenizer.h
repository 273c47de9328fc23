#pragma once
// Loads the small tokenizers of known families in tests/data/tokenizers.

#include <memory>
#include <string>

#include "core/text/tokenizer/tokenizer.h"
#include "tests/tree.h"

namespace xrun {

// Returns the tokenizer in the folder `name`, for example "smol" or "llama2".
inline std::shared_ptr<const Tokenizer> small_tokenizer(const std::string& name) {
  return Tokenizer::load(source_path("tests/data/tokenizers/" + name));
}

}  // namespace xrun

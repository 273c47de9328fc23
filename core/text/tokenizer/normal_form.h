#pragma once
// Unicode's normal forms, in version 9.0 as in Hugging Face's tokenizers.

#include <cstdint>
#include <vector>

#include "core/text/tokenizer/aligned_text.h"

namespace xrun {

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

// Returns true if the form may change a character, move it, or compose it with the one before it.
bool is_unstable(uint32_t code_point, NormalForm form);

// Returns the normal form of `characters` as edits. They must begin at a stable character or at the
// start of the text, and end before a stable character or at the end of the text.
std::vector<CharacterEdit> normalize(const std::vector<uint32_t>& characters, NormalForm form);

}  // namespace xrun

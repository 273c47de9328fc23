#pragma once
// Unicode normal forms in version 9.0, as Hugging Face's tokenizers applies them.

#include <cstdint>
#include <vector>

#include "core/text/tokenizer/aligned_text.h"

namespace xrun {

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

// Returns true if the form may change a character, move it, or compose it with the one before it.
bool is_unstable(uint32_t code_point, NormalForm form);

// Returns the normal form of a stretch that begins at a stable character or at the start of the
// text, and ends before a stable character or at the end of the text.
std::vector<CharacterEdit> normalize(const std::vector<uint32_t>& characters, NormalForm form);

}  // namespace xrun

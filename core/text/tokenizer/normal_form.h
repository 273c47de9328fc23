#pragma once
// Unicode normal forms, in the version 9.0 that Hugging Face's tokenizers applies.

#include <cstdint>
#include <vector>

#include "core/text/tokenizer/aligned_text.h"

namespace xrun {

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

// Whether the form may change a character, move it, or compose it with what precedes it.
bool is_unstable(uint32_t code_point, NormalForm form);

// Returns the form of a stretch that begins at a stable character or at the text's begin, and ends
// before a stable one or at the text's end.
std::vector<CharacterEdit> normalize(const std::vector<uint32_t>& characters, NormalForm form);

}  // namespace xrun

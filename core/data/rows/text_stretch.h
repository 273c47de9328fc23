#pragma once
// The longest stretch of a text that is tokenised at once.

#include <string_view>

#include "core/text/tokenizer/tokenizer.h"

namespace xrun {

// Throws RowRefusal "too_long" if more than tokenizer.max_stretch() bytes of the text (valid UTF-8)
// have no place at which the tokenizer can cut it (Tokenizer::borders).
void require_borders(std::string_view text, const Tokenizer& tokenizer);

}  // namespace xrun

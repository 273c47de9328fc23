#pragma once
// Limits on the length of a row: max_length in tokens, and the text that a tokenizer takes at once.

#include <initializer_list>
#include <string>
#include <string_view>

#include "core/data/rows/row_encoder.h"

namespace xrun {

// Fits the row to max_length if one of its streams is longer. kRaise: throws Error that begins with
// `location`. kDrop: throws RowRefusal "too_long". kCut: removes the end of each stream, which
// keeps the prompt and the head of the answer, counts the tokens and shows the first cut in `out`;
// throws Error if no trained token is left where there was one. `names` are the streams' names in
// messages:
// {"the chosen side", "the rejected side"}.
void fit_length(const RowEncoding& encoding, const std::string& location,
                std::initializer_list<std::string_view> names, EncodedRow& out);

// Throws RowRefusal "too_long" if more than tokenizer.max_stretch() bytes of the text (valid UTF-8)
// have no point at which the tokenizer can cut it (Tokenizer::safe_splits).
void require_borders(std::string_view text, const Tokenizer& tokenizer);

}  // namespace xrun

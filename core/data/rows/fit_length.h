#pragma once
// The fit of a row's streams to max_length.

#include <initializer_list>
#include <string>
#include <string_view>

#include "core/data/rows/row_encoder.h"

namespace xrun {

// Fits the row to max_length where one of its streams is longer: throws Error that begins with
// `place` under kRaise, RowRefusal "too_long" under kDrop; under kCut cuts the end of each stream
// off, so that what is left is the prompt and the head of the answer, counts the tokens, and shows
// the first cut in `out`. Throws Error if a cut leaves no trained token where there was one.
// `names` says what messages call the streams, one each: {"the chosen side", "the rejected side"}.
void fit_length(const EncoderParts& parts, const std::string& place,
                std::initializer_list<std::string_view> names, EncodedRow& out);

}  // namespace xrun

#pragma once
// The trim_offsets of byte-level post-processors.

#include "core/text/tokenizer/post_processor.h"

namespace xrun {

// Takes the spaces at the ends of each token off its range. Each of them takes one character off,
// also where the range is not theirs (a space that add_prefix_space put there stands for the
// character after it); with `prefix_space` one space before the first word counts as that one.
void trim_offsets(Encoding& encoding, const PostContext& context, bool prefix_space);

}  // namespace xrun

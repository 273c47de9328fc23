#pragma once
// The ids that the Python package `tokenizers` gives to added tokens, not always those of the file.

#include <string>
#include <vector>

#include "core/text/tokenizer/added_tokens.h"
#include "core/text/tokenizer/vocabulary.h"

namespace xrun {

// Says which of the added tokens of a tokenizer.json, in the file's order, has an id that
// `tokenizers` replaces: it numbers what is not in the vocabulary one after the other behind it,
// without gaps. Returns "" if there is none. xrun keeps the file's ids.
std::string package_numbering(const std::vector<AddedToken>& added, const Vocabulary& vocabulary);

}  // namespace xrun

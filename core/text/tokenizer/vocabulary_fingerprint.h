#pragma once
// Compares vocabularies by their tokens and merges, whatever files they come from.

#include <string>

#include "core/text/tokenizer/tokenizer.h"

namespace xrun {

// Returns a hash over pieces with their ids, merges (or scores) and added tokens: 32 hexadecimal
// digits. A tokenizer.json has the fingerprint of the same tokenizer in vocab.json and merges.txt,
// but not that of the tokenizer.model from which it was converted, whose scores are unknown;
// compare_vocabularies() recognises those two as equal. Reads the merges. Throws Error if they are
// damaged.
std::string vocabulary_fingerprint(const Tokenizer& tokenizer);

enum class VocabularyMatch {
  kDifferent,
  kExtended,  // every id that both have is the same token, and one of them has more tokens
  kEqual,
};

// Compares two vocabularies token by token: their pieces, which are special, and the merges. Unless
// the result is kDifferent, equal ids mean the same text, token for token.
VocabularyMatch compare_vocabularies(const Tokenizer& a, const Tokenizer& b);

}  // namespace xrun

#pragma once
// Recognises equal vocabularies by their tokens and merges, whatever their files, names and sizes.

#include <string>

#include "core/text/tokenizer/tokenizer.h"

namespace xrun {

// Returns a hash over pieces with their ids, merges (or scores) and added tokens: 32 hexadecimal
// digits. The same tokenizer as tokenizer.json and as vocab.json with merges.txt has one
// fingerprint. A tokenizer.model has scores instead of merges, so its conversion has a different
// one; compare_vocabularies() recognises the two. Reads the merges. Throws Error if they are
// damaged.
std::string vocabulary_fingerprint(const Tokenizer& tokenizer);

enum class VocabularyMatch {
  kDifferent,
  kExtended,  // every id that both have is the same token, and one of them has more tokens
  kEqual,
};

// Compares two vocabularies token by token: pieces, special or not, and the merges. Two sequences
// of equal ids over vocabularies that are not kDifferent are the same text, token for token.
VocabularyMatch compare_vocabularies(const Tokenizer& a, const Tokenizer& b);

}  // namespace xrun

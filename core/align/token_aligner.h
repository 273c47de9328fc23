#pragma once
// Aligns the tokens of two tokenizers: those of a text that both encode, or given ids.

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "core/align/walker.h"
#include "core/text/tokenizer/vocabulary_fingerprint.h"

namespace xrun {

// A document in the tokens of both sides.
struct AlignedTokens {
  std::vector<int32_t> student_ids, teacher_ids;
  Alignment pairs;
  WalkFindings findings;
  uint32_t replaced = 0;  // bytes of the text that were not UTF-8
};

// Immutable, thread-safe. A Retokenizer makes a teacher's tokens from a student's.
class TokenAligner {
 public:
  // Decodes both vocabularies and compares them.
  TokenAligner(std::shared_ptr<const Tokenizer> student, std::shared_ptr<const Tokenizer> teacher,
               WalkOptions options = {});

  const TokenTable& student() const { return student_table_; }
  const TokenTable& teacher() const { return teacher_table_; }
  // Unless it is kDifferent, documents with equal ids are aligned one to one, whatever they spell.
  VocabularyMatch vocabularies() const { return vocabularies_; }

  // Encodes a text as data (special tokens stay plain) on both sides and aligns the tokens, exactly
  // for every tokenizer (Walker). `add_specials` adds the post-processors' tokens. Throws Error as
  // Tokenizer::encode() does.
  AlignedTokens text(std::string_view text, bool add_specials = false) const;
  // Aligns ids by the bytes of their pieces. They need not be what the tokenizer would choose for
  // their text, so sampled ids align as well. Throws Error as Walker::walk() does.
  AlignedTokens ids(std::span<const int32_t> student, std::span<const int32_t> teacher) const;

 private:
  bool is_identity(std::span<const int32_t> student, std::span<const int32_t> teacher) const;

  std::shared_ptr<const Tokenizer> student_, teacher_;
  TokenTable student_table_, teacher_table_;
  VocabularyMatch vocabularies_;
  WalkOptions options_;
};

}  // namespace xrun

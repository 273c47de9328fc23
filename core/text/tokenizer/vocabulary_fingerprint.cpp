// The hash covers, for each id, its spelling and whether it is special, and then the rules by which
// the model chooses tokens. Pre-tokenizers, templates and the names of special tokens are left out:
// they change which ids a text gets, not what an id means.

#include "core/text/tokenizer/vocabulary_fingerprint.h"

#include <algorithm>
#include <optional>

#include "core/base/hash.h"
#include "core/text/tokenizer/tokenizer_pipeline.h"

namespace xrun {

namespace {

// Returns the hash of the merges or scores, or nullopt if the model does not know them.
std::optional<std::string> rules_of(const Tokenizer& tokenizer) {
  Hasher hasher;
  if (!tokenizer.state().stages.model->hash_rules(hasher)) return {};
  return hasher.hex();
}

bool same_token(const Tokenizer& a, const Tokenizer& b, int32_t id) {
  return a.piece(id) == b.piece(id) && a.is_special(id) == b.is_special(id);
}

// Returns true if the token of an id of `own` has another id in `other`.
bool is_renumbered(const Tokenizer& own, const Tokenizer& other, int32_t id) {
  const std::string_view piece = own.piece(id);
  return !piece.empty() && other.id_of(piece).has_value();
}

}  // namespace

std::string vocabulary_fingerprint(const Tokenizer& tokenizer) {
  std::string pieces;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::string_view piece = tokenizer.piece(id);
    if (piece.empty()) continue;  // unused ids at the end change nothing
    // The length, since a piece may hold any byte.
    pieces += std::to_string(id);
    pieces += tokenizer.is_special(id) ? '!' : ':';
    pieces += std::to_string(piece.size());
    pieces += ' ';
    pieces += piece;
  }
  Hasher hasher;
  hasher.field("pieces", pieces);
  hasher.field("rules", rules_of(tokenizer).value_or(""));
  return hasher.hex();
}

VocabularyMatch compare_vocabularies(const Tokenizer& a, const Tokenizer& b) {
  const auto rules_a = rules_of(a), rules_b = rules_of(b);
  // Rules that a model does not know (SentencePiece) count as equal.
  if (rules_a && rules_b && *rules_a != *rules_b) return VocabularyMatch::kDifferent;
  int64_t common = 0, only_a = 0, only_b = 0;
  const auto ids = int32_t(std::max(a.vocab_size(), b.vocab_size()));
  for (int32_t id = 0; id < ids; ++id) {
    const bool in_a = !a.piece(id).empty(), in_b = !b.piece(id).empty();
    if (in_a && in_b) {
      if (!same_token(a, b, id)) return VocabularyMatch::kDifferent;
      ++common;
    } else if (in_a || in_b) {
      // The same token under two ids: equal ids would not mean equal texts.
      if (in_a ? is_renumbered(a, b, id) : is_renumbered(b, a, id)) {
        return VocabularyMatch::kDifferent;
      }
      ++(in_a ? only_a : only_b);
    }
  }
  // Neither extends the other if each has tokens of its own.
  if (common == 0 || (only_a > 0 && only_b > 0)) return VocabularyMatch::kDifferent;
  return only_a + only_b == 0 ? VocabularyMatch::kEqual : VocabularyMatch::kExtended;
}

}  // namespace xrun

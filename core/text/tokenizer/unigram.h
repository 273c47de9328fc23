#pragma once
// The unigram model, which gives a piece the segmentation with the highest sum of scores (Kudo
// 2018).

#include <array>
#include <optional>

#include "core/text/tokenizer/piece_cache.h"
#include "core/text/tokenizer/piece_trie.h"
#include "core/text/tokenizer/token_model.h"

namespace xrun {

// A vocabulary with a score (a log-probability) for each id.
struct UnigramPieces {
  Vocabulary vocabulary;
  std::vector<double> scores;
};

class Unigram : public TokenModel {
 public:
  // unk_id is a piece of the vocabulary; without one, a character that no piece covers is an Error.
  // byte_fallback: unknown characters become tokens <0x00> to <0xFF> if the vocabulary has theirs.
  Unigram(UnigramPieces pieces, std::optional<int32_t> unk_id, bool byte_fallback);

  void tokenize(std::string_view text, std::span<const ByteRange> pieces,
                std::vector<ModelToken>& out) const override;
  const Vocabulary& vocabulary() const override { return pieces_.vocabulary; }
  void describe(TextSpelling& spelling) const override;
  bool hash_rules(Hasher& hasher) const override;

 private:
  struct BestStep;  // the best segmentation up to a byte of the piece
  void best_steps(std::string_view piece, std::vector<BestStep>& steps) const;
  void segment(std::string_view piece, std::vector<ModelToken>& out) const;
  void add_unknown(std::string_view piece, uint32_t begin, uint32_t end,
                   std::vector<ModelToken>& out) const;

  UnigramPieces pieces_;
  PieceTrie trie_;
  std::optional<int32_t> unk_id_;
  double unk_score_;
  std::array<int32_t, 256> fallback_ids_;  // of <0x00> to <0xFF>; -1: none
  uint64_t serial_;                        // identifies this model in the threads' caches
};

// Returns a well-formed JSON number as serde_json reads it, which rounds twice: the digits that fit
// 64 bits, then their product or quotient with a power of ten. A number of 17 digits may therefore
// be one step from the nearest double, which decides between segmentations of equal score. A
// number that is too large is infinite.
double serde_number(std::string_view number);

}  // namespace xrun
